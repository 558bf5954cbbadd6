"""Numbers that surely are a rank's own, in all ways in which they get their value.

Labels tell what may come to a name. Where a name also gets something else, it is not known which of
the two a place reads.
"""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.dependencies import Dependency
from ddpify.understanding.taint.flow_edges import FlowEdge
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.sources import GIVEN, LOADED, LOCAL, TOTAL

_PARTS = frozenset({LOCAL, TOTAL, *GIVEN.values()})


def is_surely_own(script: Script, node: cst.BaseExpression) -> bool:
    """Whether an expression is made from a rank's own part of the data whatever ran before."""
    module = script.owners.get(node, script.module)
    made = script.flow.made_of.of(node, module)
    return script.strict or any(_is_sure(script, one, set()) for one in made)


def _is_sure(script: Script, one: Dependency, seen: set[Location]) -> bool:
    location = one.location
    if location is None or not script.flow.labels.get(location, set()) & _PARTS:
        return False
    if location in seen:
        return True  # made from itself: what else it is made of decides
    if location[0] not in ("name", "result"):
        return True  # objects are told apart by what each is told
    edges = [
        edge
        for edge in script.flow.edges_into({location})
        if one.key is None or edge.key in (None, one.key)
    ]
    if any(edge.passes for edge in edges):
        return True  # what one of the callers passes
    inner = seen | {location}
    brings = [edge for edge in edges if _brings_part(script, edge, one, inner)]
    if any(edge.part or _adds(edge) for edge in brings):
        return True  # to whatever is there
    return bool(brings) and all(
        edge in brings or _says_nothing(script, edge, location) for edge in edges
    )


def _adds(edge: FlowEdge) -> bool:
    """``x += y``, ``x.append(y)``, ``x[key] = y``, ``x = (x * i + y) / n``."""
    if isinstance(edge.node, cst.Assign):
        return edge.adds or any(isinstance(one.target, cst.Subscript) for one in edge.node.targets)
    return isinstance(edge.node, (cst.AugAssign, cst.Call))


def _brings_part(script: Script, edge: FlowEdge, asked: Dependency, seen: set[Location]) -> bool:
    if script.takes_batches(edge):
        return True
    return any(_is_sure(script, one, seen) for one in (*edge.source, *(asked.given or ())))


def _says_nothing(script: Script, edge: FlowEdge, location: Location) -> bool:
    """Whether a move sets a start, goes on from what is there, or takes what another run left."""
    if edge.value is None or any(one.location == location for one in edge.source):
        return True
    if isinstance(edge.node, cst.AugAssign):  # ``loss /= windows``
        return True
    if isinstance(edge.value, cst.Name) and edge.value.value in ("None", "True", "False"):
        return True
    if not edge.source and all(_is_plain(script, one) for one in walk(edge.value)):
        return True
    return any(
        one.label == LOADED
        if one.location is None
        else LOADED in script.flow.labels.get(one.location, ())
        for one in edge.source
    )


def _is_plain(script: Script, node: cst.CSTNode) -> bool:
    """Not a call of anything but Python's own functions: ``float("inf")``."""
    return not isinstance(node, cst.Call) or all(
        name.startswith(("builtins.", "numpy.", "torch.", "math.", "collections."))
        for name in script.names(node.func) or ["?"]
    )
