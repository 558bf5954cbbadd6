"""Totals that code which cannot be read may have reduced."""

from __future__ import annotations

import re
from functools import cached_property

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import code_of, dotted
from ddpify.understanding.taint.call_graph import called
from ddpify.understanding.taint.flow_edges import FlowEdge
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.sources import GIVEN, LOCAL, TOTAL
from ddpify.understanding.values import Class

_TOTALS = frozenset({TOTAL, GIVEN[TOTAL]})
_PARTS = _TOTALS | {LOCAL, GIVEN[LOCAL]}
# Libraries whose functions know of no ranks; torch.distributed's are seen for what they are.
_KNOWN = frozenset(
    "builtins torch numpy math statistics scipy sklearn pandas tqdm time datetime os json copy"
    " collections itertools functools operator logging random wandb matplotlib".split()
)
# Words for what makes numbers global. They only ever silence the rule.
_REDUCES = re.compile(r"(?i)reduc|gather|sync|average|distributed|all_mean|across|broadcast|bcast")


class UnseenCode:
    """What goes through functions of modules that are neither in the project nor known."""

    def __init__(self, script: Script) -> None:
        self.script = script

    def may_be_reduced(self, node: cst.BaseExpression) -> bool:
        """Whether such a function got a rank's total, and what it gave is in an expression."""
        if self._hands_over(node):
            return True
        module = self.script.owners.get(node, self.script.module)
        return bool(self.script.flow.locations(node, module) & self._given_back)

    def may_be_agreed_on(self, node: cst.BaseExpression) -> bool:
        """Whether an expression, or what its names were set to, calls such a function whose name
        speaks of it.
        """
        locations = self.script.flow.locations(
            node, self.script.owners.get(node, self.script.module)
        )
        made = [
            edge.value for edge in self.script.flow.edges_into(locations) if edge.value is not None
        ]
        return any(
            isinstance(inner, cst.Call)
            and _REDUCES.search(code_of(inner.func)) is not None
            and self._is_unseen(inner)
            for one in (node, *made)
            for inner in walk(one)
        )

    @cached_property
    def _given_back(self) -> set[Location]:
        edges = (m for m in self.script.flow.edges if m.value is not None and not m.passes)
        found = {
            location
            for m in edges
            if m.value and self._hands_over(m.value)
            for location in m.targets
        }
        return self.script.flow.derived(found | self._told, without=self._answers_at_once)

    @cached_property
    def _told(self) -> set[Location]:
        """The objects of unseen classes that get a rank's own numbers."""
        return {
            location
            for structure in self.script.structures.values()
            for call in structure.all(cst.Call)
            for location in self.tells_object(call)
        }

    def _answers_at_once(self, edge: FlowEdge) -> bool:
        """``z = encoder.encode(x)``: what an object makes of what it gets in the same call; not
        ``total = meter.average()``, which may be of all that it has got.
        """
        calls = [one for one in walk(edge.value) if isinstance(one, cst.Call)] if edge.value else []
        answers = [one for one in calls if any(map(self._may_be_part, one.args))]
        given = {one for call in answers for one in walk(call.func)}
        reads = [
            one
            for one in (walk(edge.value) if answers and edge.value else ())
            if isinstance(one, (cst.Name, cst.Attribute))
            and self.script.control.locations(one) & self._told
        ]
        return bool(reads) and all(one in given for one in reads)

    def tells_object(self, call: cst.Call) -> set[Location]:
        """``meter.update(loss)``, where the meter's class is not seen."""
        if not isinstance(call.func, cst.Attribute):
            return set()
        made = [one.type for one in self.script.instances(call.func.value)]
        if any(not isinstance(name, str) or self._is_known(name) for name in made):
            return set()
        if not made and self.script.value(call.func.value).atoms:
            return set()
        if not any(map(self._may_be_part, call.args)):
            return set()
        told = call.func.value
        if not isinstance(told, (cst.Name, cst.Attribute)) or self._is_module(told):
            return set()
        if self._is_layer(told) and not any(map(self._is_total, call.args)):
            return set()
        return self.script.control.locations(told)

    def _is_layer(self, node: cst.Name | cst.Attribute) -> bool:
        """``self.encoder`` of a model, which makes something of each batch and keeps no account."""
        owners = self.script.instances(node.value) if isinstance(node, cst.Attribute) else []
        return bool(owners) and all(
            isinstance(one.type, Class) and "torch.nn.Module" in one.type.library_bases()
            for one in owners
        )

    def _is_total(self, given: cst.Arg) -> bool:
        return bool(self.script.labels(given.value) & _TOTALS)

    def _is_module(self, node: cst.BaseExpression) -> bool:
        """Whether a name is that of a known or local module, in code that no run gets to."""
        owner = self.script.owners[node]
        name = owner.structure.imported.get((dotted(node) or "").partition(".")[0])
        local = name is not None and self.script.project.resolve(name, owner) is not None
        return local or (name is not None and self._is_known(name))

    def _may_be_part(self, given: cst.Arg) -> bool:
        """Whether an argument is a rank's own, or was until a collective got it."""
        flow, module = self.script.flow, self.script.owners[given]
        parts = self.script.labels(given.value) & _PARTS
        return bool(parts or flow.locations(given.value, module) & flow.sanitized)

    def _hands_over(self, node: cst.BaseExpression) -> bool:
        return any(
            isinstance(one, cst.Call)
            and self._is_unseen(one)
            and any(self.script.labels(given.value) & self._taken_by(one) for given in one.args)
            for one in walk(node)
        )

    def _taken_by(self, call: cst.Call) -> frozenset[str]:
        """What a function may reduce: totals, and by its name the numbers of a step."""
        return _PARTS if _REDUCES.search(code_of(call.func)) else _TOTALS

    def _is_unseen(self, call: cst.Call) -> bool:
        if any(True for _ in called(self.script.facts, call)):
            return False
        names = self.script.names(call.func)
        if not names:
            return isinstance(call.func, cst.Name) and not self.script.value(call.func).atoms
        return not any(map(self._is_known, names))

    def _is_known(self, name: str) -> bool:
        return name.split(".")[0] in _KNOWN or "." not in name
