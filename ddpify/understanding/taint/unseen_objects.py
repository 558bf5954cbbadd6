"""Attributes of objects that code which is not read makes: set in one file, read in another.

``cfg.RANK = rank`` in a function sets what another function reads of the object, wherever it went.
Objects are told apart by the names that they go through. So this may take two objects for one, and
says what an attribute may be.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import libcst as cst

from ddpify.understanding.taint.flow_edges import FlowEdge
from ddpify.understanding.taint.locations import Location, Locations

_COPYING = frozenset({"clone", "copy", "deepcopy"})


class UnseenObjects:
    """Which slots of attributes are those of one object."""

    def __init__(
        self, edges: Iterable[FlowEdge], attributes: Mapping[Location, set[tuple[Location, str]]]
    ) -> None:
        self._above: dict[object, object] = {}
        for edge in edges if attributes else ():
            for location in _same_as(edge):
                for target in edge.targets:
                    self._join(target, location)
        for slot, owners in attributes.items():
            for owner, path in owners:
                self._join(("slot", slot), (self._object(owner), path))
        self._slots: dict[object, list[Location]] = defaultdict(list)
        for slot in attributes:
            self._slots[self._object(("slot", slot))].append(slot)

    def others(self, slot: Location) -> list[Location]:
        """The slots that are an attribute of the same object under the same name."""
        if slot[0] != "text":
            return []
        return [one for one in self._slots[self._object(("slot", slot))] if one != slot]

    def _object(self, one: object) -> object:
        above = self._above
        while one in above:
            above[one] = above.get(above[one], above[one])
            one = above[one]
        return one

    def _join(self, one: object, other: object) -> None:
        one, other = self._object(one), self._object(other)
        if one != other:
            self._above[one] = other


def note_reads(edges: Iterable[FlowEdge], locations: Locations) -> None:
    """Let it be known where attributes are read that moves set in objects that are not seen."""
    slots = [one for edge in edges for one in edge.targets if one[0] == "text"]
    names = {str(one[-1]).rpartition(".")[-1] for one in slots}
    for module, structure in locations.structures.items() if names else ():
        for node in structure.all(cst.Attribute):
            if node.attr.value in names:
                locations.of_attribute(node, module)


def _same_as(edge: FlowEdge) -> list[Location]:
    """The slots from which a move takes an object as it is, or copies it with its attributes."""
    if edge.key is not None or edge.adds or edge.part:
        return []
    taken = {edge.value, _copied(edge.value)}
    return [one.location for one in edge.source if one.location and one.node in taken]


def _copied(node: cst.BaseExpression | None) -> cst.BaseExpression | None:
    """``cfg`` of ``cfg.clone()`` and ``copy.deepcopy(cfg)``."""
    if not isinstance(node, cst.Call) or len(node.args) > 1:
        return node
    function = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
    if not isinstance(function, cst.Name) or function.value not in _COPYING:
        return node
    if node.args:
        return node.args[0].value
    return node.func.value if isinstance(node.func, cst.Attribute) else node
