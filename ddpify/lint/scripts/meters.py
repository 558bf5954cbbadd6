"""Totals that objects keep: which of a class's objects are told a rank's own numbers at all.

What a class keeps is known for all of its objects together, so that a meter of seconds would count
for one of losses. What each object is told tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.structure import Structure
from ddpify.understanding.taint.dependencies import Dependency
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.sources import GIVEN, LOCAL, TAKEN, TOTAL
from ddpify.understanding.values import Class, Instance

_TOTALS = frozenset({TOTAL, GIVEN[TOTAL]})
_PARTS = frozenset({LOCAL, TOTAL, *TAKEN})


class Meters:
    """The objects of a project that are told a rank's own numbers."""

    def __init__(self, script: Script) -> None:
        self.script = script

    def is_told(self, one: Instance) -> bool:
        """Whether an object gets any of a rank's own numbers."""
        return one in self._told

    def is_total(self, node: cst.BaseExpression) -> bool:
        """Whether a rank's own numbers, added up, reach an expression, and not only others."""
        module = self.script.owners.get(node, self.script.module)
        todo, seen = list(self.script.flow.made_of.of(node, module)), set[Location]()
        while todo:
            one = todo.pop()
            todo += one.given or ()
            if one.location is None or one.location in seen or self._is_of_untold(one):
                continue
            seen.add(one.location)
            if not self.script.flow.labels.get(one.location, set()) & _TOTALS:
                continue
            for edge in self.script.flow.edges_into({one.location}):
                if edge.adds and any(map(self._is_part, edge.source)):
                    return True
                todo += edge.source
        return False

    def _is_part(self, one: Dependency) -> bool:
        labels = (
            {one.label}
            if one.location is None
            else self.script.flow.labels.get(one.location, set())
        )
        return bool(labels & _PARTS)

    def _is_of_untold(self, one: Dependency) -> bool:
        """Whether this reads an attribute of objects that are told nothing of a rank's own.

        A method that nothing in sight calls, as ``__str__``, may be that of any object.
        """
        if not isinstance(one.node, cst.Attribute) or self._is_of_any(one.node.value):
            return False
        held = self.script.value(one.node.value).atoms
        return bool(held) and all(
            isinstance(atom, Instance) and isinstance(atom.type, Class) and atom not in self._told
            for atom in held
        )

    @cached_property
    def _told(self) -> set[Instance]:
        return {
            atom
            for target, given in self._tellings()
            if any(self._tells(target, one) for one in given)
            for atom in self.script.instances(target)
        }

    def _tells(self, target: cst.BaseExpression, given: cst.BaseExpression) -> bool:
        """Whether a rank's own numbers come to an object; in its methods, not from itself."""
        if not self._is_self(target):
            return bool(self.script.labels(given) & _PARTS)
        module, flow = self.script.owners[given], self.script.flow
        return any(
            one.location is not None
            and one.location[0] != "attribute"
            and bool(flow.labels.get(one.location, set()) & {LOCAL, TOTAL})
            for one in flow.made_of.of(given, module)
        )

    def _is_of_any(self, node: cst.BaseExpression) -> bool:
        function = self.script.structure_of(node).function(node)
        return (
            function is not None
            and self._is_self(node)
            and not self.script.control.callers(function)
        )

    def _is_self(self, node: cst.BaseExpression) -> bool:
        structure = self.script.structure_of(node)
        function = structure.function(node)
        if function is None or structure.class_of(function) is None:
            return False
        names = [one.name.value for one in function.params.params[:1]]
        return isinstance(node, cst.Name) and node.value in names

    def _tellings(self) -> Iterator[tuple[cst.BaseExpression, list[cst.BaseExpression]]]:
        """Objects, and what a method, a constructor or an assignment gives them."""
        for structure in self.script.structures.values():
            for call in structure.all(cst.Call):
                given = [one.value for one in call.args]
                yield call, given
                if isinstance(call.func, cst.Attribute):
                    yield call.func.value, given
            for target, value in _assignments(structure):
                changed = target.value if isinstance(target, cst.Subscript) else target
                if isinstance(changed, cst.Attribute):
                    yield changed.value, [value]


def _assignments(structure: Structure) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression]]:
    for one in structure.all(cst.Assign):
        yield from ((target.target, one.value) for target in one.targets)
    for more in structure.all(cst.AugAssign):
        yield more.target, more.value
