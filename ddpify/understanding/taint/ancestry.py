"""Everything that went into a value, each call of a function told apart from its other calls.

A way back through moves that enters a function by a call may leave it by that call alone: what
another call passes has no part in this one's result. This is slicing with summaries (Horwitz, Reps
and Binkley, 1990): the arguments of a call count where its function makes the result of their
parameters, and inside of the function nothing is asked about callers. Each slot is gone through
twice at most. What lies in attributes and in names of a module is shared by all calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

import libcst as cst

from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import Structure
from ddpify.understanding.taint.dependencies import Dependency
from ddpify.understanding.taint.flow_edges import FlowEdge
from ddpify.understanding.taint.locations import Location

_Function = cst.FunctionDef | cst.Lambda
_Step = tuple[Dependency, bool]  # and whether the function that it is in was entered by a call
Brings = Callable[[FlowEdge], Iterable[Dependency]]
_DEEPEST = 40  # calls within calls whose arguments are told apart


def all_sources(edge: FlowEdge) -> Iterable[Dependency]:
    """What a move brings is of all its sources."""
    return edge.source


class Ancestry:
    """What a project's values are made of, however indirectly."""

    def __init__(
        self,
        structures: dict[ModuleFile, Structure],
        edges_into: Mapping[Location, list[FlowEdge]],
        edges_at: Callable[[cst.CSTNode], list[FlowEdge]],
    ) -> None:
        self._structures = structures
        self._edges_into, self._edges_at = edges_into, edges_at
        self._around: dict[object, object] = {}  # of scopes and nodes, the function
        self._used: dict[Location, frozenset[Location] | None] = {}

    def of(self, start: Iterable[Dependency], brings: Brings = all_sources) -> Iterator[Dependency]:
        """All that these are made of, themselves included; where that starts, any call counts.

        ``brings`` says which of a move's sources to go on with.
        """
        todo: list[_Step] = [(one, False) for one in start]
        anywhere, entered = set[Location](), set[Location]()
        while todo:
            one, inside = todo.pop()
            yield one
            todo += ((given, inside) for given in self._given(one, brings))
            if one.location is None:
                continue
            if one.location[0] == "result":
                inside = self._enters(one)
            if one.location in anywhere or (inside and one.location in entered):
                continue
            (entered if inside else anywhere).add(one.location)
            todo += self._made_of(one.location, inside, brings)

    def _enters(self, one: Dependency) -> bool:
        """Whether a result is that of a call whose arguments are known, or of a property."""
        return isinstance(one.node, cst.Attribute) or _call_of(one) is not None

    def _made_of(self, location: Location, inside: bool, brings: Brings) -> Iterator[_Step]:
        """What moves bring to a slot: of a function that a call has entered, not what it gets."""
        home = self._function_of(location)
        for edge in self._edges_into.get(location, ()):
            if edge.passes:
                yield from () if inside else ((one, False) for one in brings(edge))
                continue
            stays = inside and home is not None and self._function_at(edge.node) is home
            for one in brings(edge):
                yield one, stays and self._is_at_home(one, home)

    def _is_at_home(self, one: Dependency, home: object) -> bool:
        """Whether a slot is of the function that reads it, and not of one around that."""
        slot = one.location
        return slot is None or slot[0] == "result" or self._function_of(slot) in (home, None)

    def _given(self, one: Dependency, brings: Brings) -> Iterable[Dependency]:
        """Of what a call gets, that of which its function makes the result."""
        slot = one.location
        if slot is None or slot[0] != "result" or not one.given:
            return one.given or ()
        call = _call_of(one)
        used = self._parameters(slot, 0) if call is not None else None
        if call is None or used is None:
            return one.given if len(slot) < 3 else ()
        return self._passed(call, used, brings)

    def _passed(
        self, call: cst.Call, used: frozenset[Location], brings: Brings = all_sources
    ) -> list[Dependency]:
        """What a call passes into parameters."""
        edges = self._edges_at(call)
        passed = (edge for edge in edges if edge.passes and not used.isdisjoint(edge.targets))
        return list(chain.from_iterable(map(brings, passed)))

    def _parameters(self, result: Location, depth: int) -> frozenset[Location] | None:
        """The parameters of which a function makes its result; None where that is not known."""
        if result not in self._used:
            self._used[result] = None  # a function that calls itself
            if depth < _DEEPEST and result in self._edges_into:
                self._used[result] = self._find_parameters(result, depth)
        return self._used[result]

    def _find_parameters(self, result: Location, depth: int) -> frozenset[Location]:
        home, found = result[1], set[Location]()
        todo, seen = [result], {result}
        while todo:
            slot = todo.pop()
            for edge in self._edges_into.get(slot, ()):
                if edge.passes:
                    found.add(slot)
                elif self._function_at(edge.node) is home:
                    made = (self._read(one, depth) for one in edge.source)
                    fresh = [x for x in chain.from_iterable(made) if x not in seen]
                    seen.update(fresh)
                    todo += (x for x in fresh if self._function_of(x) is home)
        return frozenset(found)

    def _read(self, one: Dependency, depth: int) -> Iterator[Location]:
        """The slots of a function that something in it is made of."""
        slot, call = one.location, _call_of(one)
        if slot is not None and slot[0] != "result":
            yield slot
        elif slot is None or call is None:
            yield from (x for given in one.given or () for x in self._read(given, depth))
        else:
            used = self._parameters(slot, depth + 1)
            given = one.given or () if used is None else self._passed(call, used)
            yield from (x for part in given for x in self._read(part, depth))

    def _function_of(self, location: Location) -> object:
        """The function whose calls each have a slot of their own; None for what all calls share."""
        if location[0] == "result":
            return location[1]
        return self._function_at(location[1]) if location[0] == "name" else None

    def _function_at(self, node: object) -> object:
        """A function itself, or the one around a node."""
        if isinstance(node, _Function):
            return node
        if node not in self._around:
            one = next((s for s in self._structures.values() if node in s.parents), None)
            self._around[node] = one.function(node) if one is not None else None  # type: ignore[arg-type]
        return self._around[node]


def _call_of(one: Dependency) -> cst.Call | None:
    """The call whose result, or an element of it, something is."""
    return one.call or (one.node if isinstance(one.node, cst.Call) else None)
