"""Numbers from loaders of which every rank goes through all."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.alone_on_one_rank import is_made_by_one_rank
from ddpify.lint.scripts.one_process import runs_alone
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.sure_parts import is_surely_own
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.call_graph import called, passed
from ddpify.understanding.taint.dependencies import Dependency
from ddpify.understanding.taint.flow_edges import FlowEdge
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.sources import GIVEN, LOCAL, TOTAL
from ddpify.understanding.values import Bound

_PARTS = frozenset({LOCAL, TOTAL, *GIVEN.values()})


def is_own(script: Script, node: cst.BaseExpression) -> bool:
    """Whether a rank's expression is made from its own part of the data, and surely so."""
    return (
        LOCAL in script.labels(node)
        and is_surely_own(script, node)
        and not sees_all_data(script, node)
    )


def sees_all_data(
    script: Script, node: cst.BaseExpression, seen: set[Location] | None = None
) -> bool:
    """Whether all that may be a rank's own in an expression surely comes from unsharded loaders.

    What objects keep is known for all of the run, so that a meter of the training counts for one
    of the validation; which function a number comes from tells them apart.
    """
    seen = set() if seen is None else seen
    module = script.owners.get(node, script.module)
    parts = [one for one in script.flow.made_of.of(node, module) if _may_be_part(script, one)]
    return bool(parts) and all(_is_full(script, one, seen) for one in parts)


def _may_be_part(script: Script, one: Dependency) -> bool:
    return one.location is not None and bool(script.flow.labels.get(one.location, set()) & _PARTS)


def _is_full(script: Script, one: Dependency, seen: set[Location]) -> bool:
    assert one.location is not None
    if one.location in seen:
        return True  # ``best = max(best, score)``: what else it is made of decides
    seen.add(one.location)
    if one.location[0] == "result" and isinstance(one.location[1], cst.FunctionDef):
        if _goes_over_all(script, one.location[1], one.node):
            return True
        return _passes_full_total(script, one, seen) or _is_set_to_full(script, one.location, seen)
    return one.location[0] == "name" and _is_set_to_full(script, one.location, seen)


def _is_set_to_full(script: Script, location: Location, seen: set[Location]) -> bool:
    """Whether all that may be a rank's own in a name or in what a function returns is such."""
    edges = [
        edge
        for edge in script.flow.edges_into({location})
        if script.takes_batches(edge) or any(_may_be_part(script, inner) for inner in edge.source)
    ]
    return bool(edges) and all(_copies_full_total(script, edge, seen) for edge in edges)


def _passes_full_total(script: Script, one: Dependency, seen: set[Location]) -> bool:
    """Whether all that a function's result may have of a rank's own is unsharded arguments."""
    if one.location is None or script.flow.labels.get(one.location, set()) & {LOCAL, TOTAL}:
        return False
    parts = [inner for inner in one.given or () if _may_be_part(script, inner)]
    return bool(parts) and all(_is_full(script, inner, seen) for inner in parts)


def _copies_full_total(script: Script, edge: FlowEdge, seen: set[Location]) -> bool:
    if runs_alone(script.control, edge.node) or is_made_by_one_rank(script, edge):
        return True  # where there is one rank, its part is all
    if edge.value is None or edge.adds or edge.passes or script.takes_batches(edge):
        return False
    return sees_all_data(script, edge.value, seen)


def _goes_over_all(script: Script, function: cst.FunctionDef, call: cst.CSTNode | None) -> bool:
    """Whether all loops over loaders in a function take unsharded ones, where this call runs it."""
    loops = [one for one in walk(function.body) if isinstance(one, cst.For)]
    given = dict(_given(script, function, call)) if isinstance(call, cst.Call) else {}
    loaders = []
    for loop in loops:
        read = {one.value for one in walk(loop.iter) if isinstance(one, cst.Name)} & {*given}
        told = [one for name in read for one in script.loaders_in(given[name])]
        loaders += told or script.loaders_in(loop.iter)
    return bool(loaders) and not any(map(script.gives_parts, loaders))


def _given(
    script: Script, function: cst.FunctionDef, call: cst.Call
) -> Iterator[tuple[str, cst.BaseExpression]]:
    """The parameters of a function, with what a call of it passes."""
    bound = any(isinstance(one, Bound) for one in script.value(call.func).atoms)
    for one in called(script.facts, call):
        if one.node is function:
            for argument, name in passed(one, int(bound), call):
                yield name, argument.value
