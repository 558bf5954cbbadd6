"""Which ranks reach code: the conditions on the rank around it, and around its callers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.started import Started
from ddpify.lint.scripts.words import compares_with_a_word
from ddpify.understanding.facts import Site
from ddpify.understanding.libraries.runtime_names import LOCAL_MAIN_FIRST
from ddpify.understanding.structure import Guard, walk
from ddpify.understanding.syntax import code_of, dotted
from ddpify.understanding.taint.call_graph import called
from ddpify.understanding.taint.sources import ANY_RANK

_EXITS = ("exit", "sys.exit", "os._exit")
# Words that make a condition doubtful. They only ever silence a rule, never speak for a finding.
MAY_BE_RANK = re.compile(
    r"(?i)rank|master|main_proc|is_main|primary|chief|leader|writer|logger|proc_id|process_index"
    r"|global_zero|ordinal|is_first"
)
_LOCKS = ("fcntl.flock", "fcntl.lockf", "portalocker.lock", "msvcrt.locking")
_CACHES = frozenset({"functools.cache", "functools.lru_cache"})
_PICKING = frozenset({"builtins.list", "builtins.range", "builtins.sorted", "builtins.filter"})


class Control(Started):
    """Questions about which ranks reach a node."""

    def rank_guards(self, node: cst.CSTNode, *, in_turn: bool = False) -> list[Guard]:
        """Those of the guards whose answer differs between ranks; on request also ``i == rank`` in
        a loop over ``i``, where each rank has its turn.

        Not where the others fail: their launcher then ends them all.
        """
        return [
            guard
            for guard in self.guards(node)
            if not (guard.left_early and _fails(guard.statement))
            and (self.script.strict or not self._leaves_in_a_mode(guard))
            and self.asks_rank(guard.test)
            and any(map(self.asks_rank, but_entries(guard.test)))
            and (in_turn or not self._asks_whose_turn(guard))
            and (self.script.strict or not self._asks_for_more(guard.test))
        ]

    def _leaves_in_a_mode(self, guard: Guard) -> bool:
        """``if measuring and rank == 0: ...; return``: in other modes all ranks go on."""
        test = guard.test
        return (
            guard.left_early
            and isinstance(test, cst.BooleanOperation)
            and isinstance(test.operator, cst.And)
            and not (self.asks_rank(test.left) and self.asks_rank(test.right))
        )

    def _asks_for_more(self, test: cst.BaseExpression) -> bool:
        """``if not part: break``: whether a rank has picked anything at all tells no rank; where
        there is enough for all of them, it is the same on each.
        """
        while isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            test = test.expression
        if not isinstance(test, (cst.Name, cst.Attribute)):
            return False
        made = [edge.value for edge in self.script.flow.edges_into(self.locations(test))]
        return bool(made) and all(map(self._picks, made))

    def _picks(self, node: cst.CSTNode | None) -> bool:
        """``[x[i] for i in ...]``, ``x[a:b]``, ``list(range(a, b))``."""
        if isinstance(node, cst.Subscript):
            return isinstance(node.slice[0].slice, cst.Slice)
        if isinstance(node, cst.Call):
            return bool(self.script.names(node.func) & _PICKING)
        return isinstance(node, cst.ListComp)

    def _asks_whose_turn(self, guard: Guard) -> bool:
        """``for i in ...: if i % world_size == rank``: in the loop, each rank has its turn."""
        loops = self.script.structure_of(guard.statement).loops(guard.statement)
        module = self.script.owners.get(guard.test, self.script.module)
        turning = {
            location
            for loop in loops
            if isinstance(loop, cst.For)
            for name in walk(loop.target)
            if isinstance(name, cst.Name)
            for location in self.locations(name)
        }
        return any(
            isinstance(one, cst.Comparison)
            and self.asks_rank(one)
            and bool(self.script.flow.locations(one, module) & turning)
            for one in walk(guard.test)
        )

    def asks_rank(self, test: cst.BaseExpression) -> bool:
        """Whether a condition's answer differs between ranks by their number."""
        return any(
            self.script.labels(one) & ANY_RANK and not compares_with_a_word(self, one)
            for one in _joined(test)
        )

    def on_some_ranks(self, node: cst.CSTNode, seen: frozenset[cst.CSTNode] = frozenset()) -> bool:
        """Whether a node is only reached under a condition on the rank, here or in its callers."""
        if self.rank_guards(node):
            return True
        function = self.script.structure_of(node).function(node)
        if function is None or function in seen or function in self.spawned:
            return False  # whoever starts ranks, all of them run it
        callers = self.callers(function)
        if not callers or self.covers_all(callers):
            return False
        return all(self.on_some_ranks(site.node, seen | {function}) for site in callers)

    def covers_all(self, callers: list[Site]) -> bool:
        """Whether both branches of one condition on the rank are among the callers."""
        sides: dict[cst.CSTNode, set[bool]] = {}
        for site in callers:
            for guard in self.rank_guards(site.node):
                sides.setdefault(guard.statement, set()).add(guard.positive)
        return any(len(both) == 2 for both in sides.values())

    def takes_turns(self, node: cst.CSTNode) -> bool:
        """Whether a node stands under a context manager with a barrier or a lock, or in a function
        that locks a file itself.
        """
        function = self.script.structure_of(node).function(node)
        if any(
            self.script.structure_of(one).function(one) is function
            for one in self.script.calls(*_LOCKS, everywhere=True)
        ):
            return True
        if self.script.has_runtime and self.is_within(node, LOCAL_MAIN_FIRST):
            return True
        for above in self.script.structure_of(node).up(node):
            for item in above.items if isinstance(above, cst.With) else ():
                if "lock" in code_of(item.item).lower():
                    return True
                if isinstance(item.item, cst.Call) and any(
                    name.endswith(".barrier")
                    for function in called(self.script.facts, item.item)
                    for name, _ in self.script.collectives(function.node)
                ):
                    return True
        return False

    def is_cached(self, function: cst.FunctionDef | cst.Lambda) -> bool:
        """Whether a call may find what an earlier one gave, and run nothing."""
        for one in function.decorators if isinstance(function, cst.FunctionDef) else ():
            made = one.decorator
            target = made.func if isinstance(made, cst.Call) else made
            if self.script.names(target) & _CACHES:
                return True
        return False


def _joined(test: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The questions that ``and``, ``or`` and ``not`` make a condition of."""
    if isinstance(test, cst.BooleanOperation):
        return [*_joined(test.left), *_joined(test.right)]
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return _joined(test.expression)
    return [test]


def but_entries(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The parts of a test, but for entries of dictionaries: in a dictionary that goes through
    functions, those beside the rank are not told apart from it, unless their key speaks of it.
    """
    if isinstance(node, cst.Subscript):
        index = node.slice[0].slice
        key = index.value if isinstance(index, cst.Index) else None
        if isinstance(key, cst.SimpleString) and not MAY_BE_RANK.search(key.value):
            return
    if isinstance(node, (cst.Name, cst.Attribute, cst.Subscript, cst.Call)):
        yield node
    for child in node.children:
        yield from but_entries(child)


def _fails(statement: cst.CSTNode) -> bool:
    """``if ...: raise ...``, also ``sys.exit(1)``."""
    last = statement.body.body[-1] if isinstance(statement, cst.If) else None
    if not isinstance(last, cst.SimpleStatementLine):
        return False
    end = last.body[-1]
    if isinstance(end, cst.Expr) and isinstance(end.value, cst.Call):
        given = [code_of(one.value) for one in end.value.args]
        return dotted(end.value.func) in _EXITS and given not in ([], ["0"])
    return isinstance(end, cst.Raise)
