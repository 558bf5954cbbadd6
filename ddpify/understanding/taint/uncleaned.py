"""Names that a collective reduces, read where it has not got them yet.

``if loss.item() > 10: break`` before ``all_reduce(loss)`` asks for a rank's own number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

import libcst as cst

from ddpify.records import replace
from ddpify.understanding.facts import Facts
from ddpify.understanding.libraries.distributed import REDUCING, library_names
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import Structure, walk
from ddpify.understanding.taint.dependencies import Dependency
from ddpify.understanding.taint.flow_edges import FlowEdge
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.reaching_definitions import reaching_definition

_FURTHEST = 8  # names that are set to names; a chain in a loop has no end


def places_of_reductions(
    edges: Iterable[FlowEdge], facts: Facts
) -> dict[Location, list[cst.CSTNode]]:
    """Where names are set to what a function of the project reduces of them: ``x = mean(x)``."""
    found: dict[Location, list[cst.CSTNode]] = defaultdict(list)
    reducing: dict[object, bool] = {}
    for edge in edges:
        for one in edge.source if isinstance(edge.value, cst.Call) else ():
            function = one.location[1] if one.location and one.location[0] == "result" else None
            if not isinstance(function, cst.FunctionDef) or not one.given:
                continue
            if function not in reducing:
                reducing[function] = _reduces(function, facts)
            own = {inner.location for inner in one.given} if reducing[function] else set()
            for location in edge.targets if own else ():
                if location in own:
                    found[location].append(edge.node)
    return found


def _reduces(function: cst.FunctionDef, facts: Facts) -> bool:
    calls = (one for one in walk(function.body) if isinstance(one, cst.Call))
    return any(REDUCING.intersection(library_names(facts.values.get(one.func))) for one in calls)


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
        edges = self._last(one) if one.location in self._cleaned and further else []
        if not edges:
            return [one]
        sources = [source for edge in edges for source in edge.source]
        found = [inner for source in sources for inner in self._before(source, further - 1)]
        return [replace(inner, pure=inner.pure and one.pure) for inner in found]

    def _last(self, one: Dependency) -> list[FlowEdge]:
        """What surely has set a name before it is read here, with no collective in between, and
        what may have been added to it since.
        """
        assert one.location is not None
        read = one.node
        structure = next((s for s in self._structures if read in s.order), None)
        if read is None or structure is None or not isinstance(read, cst.Name):
            return []
        places = self._cleaned[one.location]
        around = structure.function(read)
        if any(at not in structure.order or structure.function(at) is not around for at in places):
            return []
        edges = [edge for edge in self._moves_to({one.location}) if not edge.passes]
        added = [edge for edge in edges if isinstance(edge.node, cst.AugAssign)]
        last = reaching_definition(structure, read, [e.node for e in edges if e not in added])
        if last is None or last in places:
            return []
        start, end = structure.order[last], structure.order[read]
        if any(start < structure.order[at] < end for at in places):
            return []
        since = [edge for edge in added if start < structure.order.get(edge.node, end) < end]
        return [*(edge for edge in edges if edge.node is last), *since]
