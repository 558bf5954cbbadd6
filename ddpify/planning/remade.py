"""What a restarted script makes again as it was, before it comes to the loop that it takes up.

The code around that loop runs once more, with random streams and objects as they are then, not as
they were. Only what follows from literals, settings and the number of the round is sure to be the
same.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.planning.plain_values import is_plain
from ddpify.planning.plan import Plan
from ddpify.planning.resumed_loops import (
    ResumedLoop,
    Resumption,
    attribute_targets,
    bound_names,
    parameter_names,
    reached,
)
from ddpify.understanding.facts import Site
from ddpify.understanding.liveness import assigned, reads
from ddpify.understanding.structure import walk
from ddpify.understanding.values import Const, Number, Value

_ACTIONS = (cst.Call, cst.AugAssign, cst.For, cst.NamedExpr, cst.Await, cst.Yield)
_UNSURE = (cst.While, cst.For, cst.Try, cst.Match)
_FIXED_CALLS = frozenset({"len", "range"})


class Remade:
    """What the code of one function, or file, around a loop makes again.

    Args:
        plan: What is known of the script.
        found: The loops that are taken up again.
        loop: One of them.
        outermost: The code of this function that a restart leaves out in part.
    """

    def __init__(
        self, plan: Plan, found: Resumption, loop: ResumedLoop, outermost: cst.CSTNode
    ) -> None:
        self.plan, self.found, self.loop, self.module = plan, found, loop, loop.module
        self.outermost = outermost
        self.own = set(walk(loop.node))
        self.function = loop.module.function(loop.node)
        self.bound: dict[str, list[cst.Name]] = {}
        order = self.module.structure.order
        for node in bound_names(outermost):
            # What is bound behind the loop is taken over by the round after, and held there.
            if node in self.own or order[node] < order[loop.node]:
                self.bound.setdefault(node.value, []).append(node)
        around = (one.node for one in found.loops.values())
        self.targets = frozenset().union(*(assigned(one.target) for one in around))
        self.attributes = {
            target.attr.value
            for one in found.loops.values()
            for node in reached(plan, one)
            for target in attribute_targets(node)
        }
        self.read = reads(loop.node)
        self._asked: set[str] = set()

    def name(self, name: str) -> bool:
        """Whether a restarted script gives a name the same value before it comes to the loop."""
        if name in self.targets:
            return True
        if name in self._asked:
            return False
        self._asked.add(name)
        try:
            nodes = self.bound.get(name, [])
            given = self.function is not None and name in parameter_names(self.function)
            if given and not self._given_again(name):
                return False
            return all(map(self._made_again, nodes))
        finally:
            self._asked.discard(name)

    def _made_again(self, node: cst.Name) -> bool:
        """Whether one assignment before the loop is surely made again, with the same value."""
        line = self.module.statement(node)
        if node in self.own or any(isinstance(n, _ACTIONS) for n in walk(line)):
            return False
        held = self.plan.facts.values.get(node, Value())
        fixed = all(isinstance(atom, (Const, Number)) for atom in held.atoms)
        if not (fixed and held) and node.value in self.read:
            return False
        conditions = [*self._conditions(line)]
        known = all(one is not None and self._same(one) for one in conditions)
        return known and (held.constant() is not ... or self._reads_same(line))

    def _conditions(self, line: cst.CSTNode) -> Iterator[cst.BaseExpression | None]:
        """What decides whether a line runs: tests; None for anything else."""
        for above in self.module.structure.up(line):
            if above is self.outermost:
                return
            if isinstance(above, cst.If):
                yield above.test
            elif isinstance(above, _UNSURE) and above not in self.found.loops:
                yield None

    def _same(self, test: cst.BaseExpression) -> bool:
        return not any(isinstance(n, _ACTIONS) for n in walk(test)) and self._reads_same(test)

    def _reads_same(self, code: cst.CSTNode) -> bool:
        """Whether all that code reads is as it was."""
        fixed = all(
            self._fixed(n) for n in walk(code) if isinstance(n, (cst.Attribute, cst.Subscript))
        )
        return fixed and all(map(self.name, reads(code)))

    def _fixed(self, node: cst.Attribute | cst.Subscript) -> bool:
        """Whether an attribute or an item is a setting, which no round assigns."""
        held = self.plan.facts.values.get(node)
        known = held is not None and all(isinstance(a, (Const, Number)) for a in held.atoms)
        return known and isinstance(node, cst.Attribute) and node.attr.value not in self.attributes

    def _given_again(self, name: str) -> bool:
        """Whether all calls of the function give a parameter a value that is made again."""
        assert self.function is not None
        return all(
            self._argument_same(site, name)
            for site in self.plan.facts.callers.get(self.function, ())
        )

    def _argument_same(self, site: Site, name: str) -> bool:
        """The same for one call; unknown arguments count as settings."""
        call = site.node
        argument = _argument(self.function, call, name) if isinstance(call, cst.Call) else None
        around = [n for n in site.module.structure.loops(call) if n in self.found.loops]
        if argument is None or not around or not isinstance(call, cst.Call):
            return True
        if any(isinstance(n, cst.Call) and _is_action(n) for n in walk(argument)):
            return False
        body = {node.value for loop in around for node in bound_names(loop)} - self.targets
        value = self.plan.facts.values.get(argument, Value())
        return not (body & reads(argument) and is_plain(self.plan, value))


def _is_action(call: cst.Call) -> bool:
    return not (isinstance(call.func, cst.Name) and call.func.value in _FIXED_CALLS)


def _argument(
    function: cst.FunctionDef | None, call: cst.Call, name: str
) -> cst.BaseExpression | None:
    """What a call gives a parameter; None where that is not told."""
    assert function is not None
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == name:
            return arg.value
    names = [p.name.value for p in (*function.params.posonly_params, *function.params.params)]
    if isinstance(call.func, cst.Attribute) and names[:1] == ["self"]:
        names = names[1:]
    plain = [arg for arg in call.args if arg.keyword is None]
    if any(arg.star for arg in call.args) or name not in names:
        return None
    at = names.index(name)
    return plain[at].value if at < len(plain) else None
