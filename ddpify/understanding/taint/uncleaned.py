"""Names that a collective reduces, read where it has not got them yet.

``if loss.item() > 10: break`` before ``all_reduce(loss)`` asks for a rank's own number.
"""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from ddpify.records import replace
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import Structure
from ddpify.understanding.taint.dependencies import Dependency
from ddpify.understanding.taint.flow_edges import FlowEdge
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.reaching_definitions import reaching_definition

_FURTHEST = 8  # names that are set to names; a chain in a loop has no end


class Uncleaned:
    """Replaces what is made of such a name by what is made of the value that it was set to."""

    def __init__(
        self,
        structures: dict[ModuleFile, Structure],
        sanitized: dict[Location, list[cst.CSTNode]],
        edges_into: Callable[[set[Location]], list[FlowEdge]],
    ) -> None:
        self._structures = structures.values()
        self._cleaned = {
            location: nodes for location, nodes in sanitized.items() if location[0] == "name"
        }
        self._moves_to = edges_into

    def __call__(self, made: list[Dependency]) -> None:
        """Change what an expression depends on, in its place."""
        if any(one.location in self._cleaned for one in made):
            made[:] = [inner for one in made for inner in self._before(one, _FURTHEST)]

    def _before(self, one: Dependency, further: int) -> list[Dependency]:
        edge = self._last(one) if one.location in self._cleaned and further else None
        if edge is None:
            return [one]
        found = [inner for source in edge.source for inner in self._before(source, further - 1)]
        return [replace(inner, pure=inner.pure and one.pure) for inner in found]

    def _last(self, one: Dependency) -> FlowEdge | None:
        """What surely has set a name before it is read here, with no collective in between."""
        assert one.location is not None
        read = one.node
        structure = next((s for s in self._structures if read in s.order), None)
        if read is None or structure is None or not isinstance(read, cst.Name):
            return None
        places = self._cleaned[one.location]
        around = structure.function(read)
        if any(at not in structure.order or structure.function(at) is not around for at in places):
            return None
        edges = [edge for edge in self._moves_to({one.location}) if not edge.passes]
        last = reaching_definition(structure, read, [edge.node for edge in edges])
        if last is None or isinstance(last, cst.AugAssign):
            return None
        start, end = structure.order[last], structure.order[read]
        if any(start < structure.order[at] < end for at in places):
            return None
        return next((edge for edge in edges if edge.node is last), None)
