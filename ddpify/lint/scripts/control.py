"""Under which conditions code runs: on which ranks, in which loops, with or without a graph."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.lint.scripts import starting
from ddpify.understanding.facts import Site
from ddpify.understanding.libraries.distributed import INIT_GROUP
from ddpify.understanding.libraries.object_kinds import NO_GRAD
from ddpify.understanding.libraries.runtime_names import LOCAL_MAIN_FIRST
from ddpify.understanding.structure import Guard, walk
from ddpify.understanding.syntax import code_of, dotted
from ddpify.understanding.taint.call_graph import called
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.sources import ANY_RANK
from ddpify.understanding.values import Function, Instance

if TYPE_CHECKING:
    from ddpify.lint.scripts.sharded_values import Reading

# What starts the processes of a script; a name that ends with a dot is a prefix.
_STARTING = ("torch.multiprocessing.", "multiprocessing.", "torch.distributed.launcher.")
_STARTS_NOTHING = frozenset(
    "cpu_count current_process parent_process active_children freeze_support get_start_method"
    " set_start_method set_sharing_strategy get_sharing_strategy get_all_sharing_strategies"
    " Queue SimpleQueue JoinableQueue Pipe Lock RLock Event Condition Semaphore BoundedSemaphore"
    " Barrier Value Array RawValue RawArray get_logger log_to_stderr SharedMemory".split()
)
_SPARK = "pyspark.ml.torch.distributor.TorchDistributor"
_EXITS = ("exit", "sys.exit", "os._exit")
# Words that make a condition doubtful. They only ever silence a rule, never speak for a finding.
MAY_BE_RANK = re.compile(
    r"(?i)rank|master|main_proc|is_main|primary|chief|leader|writer|logger|proc_id|process_index"
    r"|global_zero|ordinal|is_first"
)
_CACHES = frozenset({"functools.cache", "functools.lru_cache"})
_PICKING = frozenset({"builtins.list", "builtins.range", "builtins.sorted", "builtins.filter"})


class Control:
    """Questions about the guards, callers and loops around a node."""

    def __init__(self, script: Reading) -> None:
        self.script = script

    def guards(self, node: cst.CSTNode) -> Sequence[Guard]:
        """The conditions under which a node is reached inside its function."""
        return self.script.structure_of(node).guards(node)

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
        return bool(self.script.labels(test) & ANY_RANK)

    def callers(self, function: cst.FunctionDef) -> list[Site]:
        """The places in the project that call a function."""
        return sorted(
            self.script.facts.callers.get(function, ()),
            key=lambda s: (
                str(s.module.path),
                self.script.structures[s.module].order.get(s.node, 0),
            ),
        )

    def ways_to(self, node: cst.CSTNode) -> list[cst.CSTNode]:
        """A node and the calls, one in the other, by which its function is reached."""
        found = {node: None}
        todo = [node]
        while todo:
            one = todo.pop()
            function = self.script.structure_of(one).function(one)
            sites = self.callers(function) if function is not None else []
            todo += [site.node for site in sites if site.node not in found]
            found |= dict.fromkeys(site.node for site in sites)
        return list(found)

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

    def runs_before_spawning(self, node: cst.CSTNode) -> bool:
        """Whether a node surely runs in the process that starts the ranks with ``mp.spawn``."""
        if not self.spawned:
            return False
        function = self.script.structure_of(node).function(node)
        return function is None or function in self._spawners

    @cached_property
    def _spawns_ranks(self) -> bool:
        """Whether what the script starts joins a process group."""
        return any(map(self._joins_group, self.spawned))

    def _joins_group(self, function: cst.CSTNode) -> bool:
        return any(
            isinstance(one, cst.Call) and INIT_GROUP in self.script.names(one.func)
            for one in self.script.reached(function)
        )

    def helps_ranks(self, function: cst.CSTNode) -> bool:
        """Whether a function runs in a process beside the ranks that the script starts, too."""
        return self._spawns_ranks and not self._joins_group(function)

    def is_only_before_spawning(self, node: cst.CSTNode) -> bool:
        """Whether a node is only reached in the process that starts the ranks."""
        if not self._spawns_ranks:
            return False
        todo, seen = [node], set[cst.FunctionDef]()
        while todo:
            one = todo.pop()
            if self.runs_before_spawning(one):
                continue
            function = self.script.structure_of(one).function(one)
            callers = self.callers(function) if function is not None else []
            if function is None or function in self.spawned or not callers:
                return False
            if function not in seen:
                seen.add(function)
                todo += [site.node for site in callers]
        return True

    def is_ruled_out_where_spawned(self, node: cst.CSTNode) -> bool:
        """Whether a condition on a node is one under which no ranks are started.

        ``if export or alone: worker(0) else: spawn(worker)``, and in the worker ``if export:``.
        """
        here = {code_of(one.test) for one in self.guards(node) if one.positive}
        return bool(here) and all(
            here & {text for one in self.guards(call) for text in _denied(one)}
            for call in self._starting
        )

    def starts_processes(self, node: cst.CSTNode) -> bool:
        """Whether the function around a node starts the ranks: it runs once."""
        around = self.script.structure_of(node).function(node)
        return around is not None and around in self._starters

    @cached_property
    def _spawners(self) -> set[cst.FunctionDef | None]:
        """Functions that call ``mp.spawn`` or start processes of their own, and are no ranks."""
        functions = {self.script.structure_of(call).function(call) for call in self._starting}
        return {one for one in functions if one not in self.spawned or not self._joins_group(one)}

    @cached_property
    def _starting(self) -> list[cst.Call]:
        """Calls that start processes of the ranks, or make what does."""
        runs = [
            call
            for call in self.script.method_calls("run", everywhere=True)
            if isinstance(call.func, cst.Attribute)
            and any(one.type == _SPARK for one in self.script.instances(call.func.value))
        ]
        calls = [
            call
            for call in self.script.calls(*_STARTING, everywhere=True)
            if not {name.rsplit(".", 1)[-1] for name in self.script.names(call.func)}
            & _STARTS_NOTHING
        ]
        return calls + runs

    @cached_property
    def _starters(self) -> set[cst.FunctionDef | None]:
        calls = starting.calls(self.script)
        return {self.script.structure_of(call).function(call) for call in calls}

    def is_within(
        self, node: cst.CSTNode, *names: str, seen: frozenset[cst.CSTNode] = frozenset()
    ) -> bool:
        """Whether a node only runs inside ``with`` blocks of these library functions."""
        structure = self.script.structure_of(node)
        for above in structure.up(node):
            for item in above.items if isinstance(above, cst.With) else ():
                if isinstance(item.item, cst.Call) and self.script.names(item.item.func) & {*names}:
                    return True
        function = structure.function(node)
        callers = self.callers(function) if function is not None and function not in seen else []
        inner = seen | {function} if function is not None else seen
        return bool(callers) and all(
            self.is_within(site.node, *names, seen=inner) for site in callers
        )

    def takes_turns(self, node: cst.CSTNode) -> bool:
        """Whether a node stands under a context manager with a barrier or a lock."""
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

    @cached_property
    def spawned(self) -> set[cst.CSTNode]:
        """Functions that run in processes that the script starts itself."""
        found: set[cst.CSTNode] = set()
        for call in self._starting:
            for one in call.args:
                found |= {
                    a.node for a in self.script.value(one.value).atoms if isinstance(a, Function)
                }
        return found

    def locations(self, node: cst.Name | cst.Attribute) -> set[Location]:
        """Where a name or an attribute keeps its value, whatever that is."""
        names, module = self.script.flow.names, self.script.owners.get(node, self.script.module)
        if isinstance(node, cst.Name):
            return set(names.of_name(node, module))
        return set(names.of_attribute(node, module))

    def is_cached(self, function: cst.FunctionDef | cst.Lambda) -> bool:
        """Whether a call may find what an earlier one gave, and run nothing."""
        for one in function.decorators if isinstance(function, cst.FunctionDef) else ():
            made = one.decorator
            target = made.func if isinstance(made, cst.Call) else made
            if self.script.names(target) & _CACHES:
                return True
        return False

    def in_try(self, node: cst.CSTNode) -> bool:
        """Whether an error here may be taken by a `try` in the same file."""
        return any(isinstance(above, cst.Try) for above in self.script.structure_of(node).up(node))

    def around(self, node: cst.CSTNode) -> list[cst.For | cst.While]:
        """The loops around a node, in its function and in those that call it."""
        found: dict[cst.For | cst.While, None] = {}
        todo, seen = [node], {node}
        while todo:
            one = todo.pop()
            structure = self.script.structure_of(one)
            found |= dict.fromkeys(structure.loops(one))
            function = structure.function(one)
            if function is not None and function not in seen:
                seen.add(function)
                todo += [site.node for site in self.callers(function)]
        return list(found)

    def without_grad(self, node: cst.CSTNode, seen: frozenset[cst.CSTNode] = frozenset()) -> bool:
        """Whether a node only runs where no graph is recorded."""
        structure = self.script.structure_of(node)
        for above in structure.up(node):
            if isinstance(above, cst.With) and any(
                isinstance(a, Instance) and a.type in NO_GRAD
                for item in above.items
                for a in self.script.value(item.item).atoms
            ):
                return True
            if isinstance(above, cst.FunctionDef):
                return self._function_without_grad(above, seen)
        return False

    def _function_without_grad(
        self, function: cst.FunctionDef, seen: frozenset[cst.CSTNode]
    ) -> bool:
        for one in function.decorators:
            target = one.decorator
            names = self.script.names(target.func if isinstance(target, cst.Call) else target)
            if names & set(NO_GRAD):
                return True
        if function in seen:
            return False
        callers = self.callers(function)
        inner = seen | {function}
        return bool(callers) and all(self.without_grad(site.node, inner) for site in callers)


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


def _denied(guard: Guard) -> Iterator[str]:
    """What surely does not hold where a guard stands: of ``a or b`` that failed, both."""
    if guard.positive:
        return
    todo = [guard.test]
    while todo:
        one = todo.pop()
        yield code_of(one)
        if isinstance(one, cst.BooleanOperation) and isinstance(one.operator, cst.Or):
            todo += [one.left, one.right]


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
