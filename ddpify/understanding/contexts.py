"""Which objects made at one place are the same: the calls that lead there tell them apart.

A function that builds a loader gives one object for each call of it. Calls that exclude each other,
as in the two branches of an ``if``, are one way of getting there: of their objects only one exists.
But where each call gives its result a name, what has these names is told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import libcst as cst

from ddpify.understanding.facts import Site
from ddpify.understanding.frames import Frame

_CALLS = 3  # that are told apart
_MOST = 16  # ways to one place; what comes later shares one object, or the work would explode

Context = tuple[cst.CSTNode | int, ...]


class Contexts:
    """The ways of getting to the places that make objects; they outlast a pass."""

    def __init__(self) -> None:
        self._ways: dict[cst.CSTNode, int] = {}
        # Of each function, by the one that calls it: calls that exclude each other, together.
        self._apart: dict[tuple[cst.CSTNode | None, cst.CSTNode | None], list[list[Site]]] = {}
        self._firsts: dict[tuple[cst.CSTNode | None, cst.CSTNode], cst.CSTNode] = {}

    def last_calls(self, frames: Sequence[Frame]) -> Context:
        """The innermost calls in progress, outermost first; of those apart, the first one met."""
        found: list[cst.CSTNode] = []
        for frame in reversed(frames):
            if frame.kept:  # whatever call comes first
                break
            if frame.call is not None:
                found.append(self._first(frame.runs, frame.call))
                if len(found) == _CALLS:
                    break
        return tuple(reversed(found))

    def are_too_many(self, node: cst.CSTNode) -> bool:
        """Whether one more way to a place is not told apart from others."""
        self._ways[node] = self._ways.get(node, 0) + 1
        return self._ways[node] > _MOST

    def _first(self, called: cst.CSTNode | None, call: Site) -> cst.CSTNode:
        """The first call met among those of the same function that exclude each other."""
        key = called, call.node
        if key not in self._firsts:
            around = call.module.structure.function(call.node)
            groups = self._apart.setdefault((called, around), [])
            alike = next((g for g in groups if all(_are_one_way(one, call) for one in g)), None)
            if alike is None:
                groups.append(alike := [])
            alike.append(call)
            self._firsts[key] = alike[0].node
        return self._firsts[key]


def into_forward(frames: Sequence[Frame]) -> Context:
    """The call by which the forward in progress was entered, on a rank's rows or on others."""
    entered = (f.call.node for f in frames if f.in_forward and f.call is not None)
    return tuple(islice(entered, 1))


def _are_one_way(one: Site, other: Site) -> bool:
    """Whether of two calls in one function only one happens in each call of that function."""
    unused = any(call.module.is_unused(call.node) for call in (one, other))
    if one.module is not other.module or not unused:
        return False
    structure = one.module.structure
    held = {guard.test: guard.positive for guard in structure.guards(one.node)}
    return any(
        held.get(guard.test, guard.positive) is not guard.positive
        and not structure.loops(guard.statement)  # where each round may go another way
        for guard in structure.guards(other.node)
    )
