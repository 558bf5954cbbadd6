"""Conditions that ask for a rank whatever way their value came."""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.control import Control, but_entries
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.flow_edges import FlowEdge
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.sources import ANY_RANK


def surely_asks_rank(control: Control, test: cst.BaseExpression) -> bool:
    """Whether a condition asks for what is a rank in all ways in which it gets its value."""
    return any(_is_surely_rank(control, one, set()) for one in but_entries(test))


def asks_unseen(control: Control, node: cst.CSTNode) -> bool:
    """Whether a condition on a node asks for an attribute that another name of an object that is
    not seen sets: it may be another object.
    """
    script = control.script
    return any(
        one.location in script.flow.joined
        for guard in control.rank_guards(node, in_turn=True)
        for one in script.flow.ancestry(guard.test, script.owners.get(guard.test, script.module))
    )


def _is_surely_rank(control: Control, node: cst.BaseExpression, seen: set[Location]) -> bool:
    """Whether an expression is a rank in all ways in which it gets its value."""
    flow = control.script.flow
    module = control.script.owners.get(node, control.script.module)
    for one in flow.made_of.of(node, module):
        if one.location is None and one.label in ANY_RANK:
            return True
        if one.location is not None and _holds_only_ranks(control, one.location, seen, one.key):
            return True
    return False


def _holds_only_ranks(
    control: Control, location: Location, seen: set[Location], key: str | None = None
) -> bool:
    """Whether all that is put into a slot, or into an entry of it, is a rank."""
    if location in seen:
        return False
    if not control.script.flow.labels.get(location, set()) & ANY_RANK:
        return False
    seen.add(location)
    return all(
        _sets_rank(control, edge, seen)
        for edge in control.script.flow.edges_into({location})
        if not _is_plain(edge.value) and (key is None or edge.key in (None, key))
    )


def _sets_rank(control: Control, edge: FlowEdge, seen: set[Location]) -> bool:
    if any(one.location is None and one.label in ANY_RANK for one in edge.source):
        return True
    locations = [one.location for one in edge.source if one.location is not None]
    return any(
        location in seen or _holds_only_ranks(control, location, seen) for location in locations
    )


def _is_plain(node: cst.BaseExpression | None) -> bool:
    """``-1``, ``None``, ``True``: what stands for a rank where there is one process."""
    return node is not None and not any(_has_source(one) for one in walk(node))


def _has_source(node: cst.CSTNode) -> bool:
    names = (cst.Attribute, cst.Call, cst.Subscript)
    return isinstance(node, names) or (
        isinstance(node, cst.Name) and node.value not in ("None", "True", "False")
    )
