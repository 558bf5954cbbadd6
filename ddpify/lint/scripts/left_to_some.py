"""What rank 0 alone sets, and every rank then goes by."""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.surely_ranks import surely_asks_rank
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.flow_edges import FlowEdge
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.sources import asks_for_identity


def is_left_to_some(script: Script, test: cst.BaseExpression) -> bool:
    """Whether a condition reads a name that only some ranks set anew, and nothing hands on.

    ``if rank == 0: stop = loss > best``, and then ``if stop: break``.
    """
    if any(isinstance(one, cst.Comparison) and _is_about_objects(one) for one in walk(test)):
        return False
    return any(
        _is_set_by_some(script, location)
        for one in walk(test)
        if isinstance(one, cst.Name)
        for location in script.control.locations(one)
        if location[0] == "name"
    )


def _is_about_objects(node: cst.Comparison) -> bool:
    """``writer is not None``; ``stop.item() is True`` asks for a value."""
    asked = node.comparisons[0].comparator
    none = isinstance(asked, cst.Name) and asked.value == "None"
    return none and asks_for_identity(node)


def _is_set_by_some(script: Script, location: Location) -> bool:
    if script.flow.is_agreed_on({location}):
        return False
    edges = script.flow.edges_into({location})
    some = [edge for edge in edges if _is_of_some(script, edge)]
    others = [edge for edge in edges if edge not in some]
    return bool(some and others) and not any(
        edge.passes or any(one.location == location for one in edge.source) for edge in others
    )


def _is_of_some(script: Script, edge: FlowEdge) -> bool:
    """Whether an assignment of a value stands under a condition that surely is on the rank."""
    if not isinstance(edge.node, (cst.Assign, cst.AugAssign, cst.AnnAssign)):
        return False
    guards = script.control.rank_guards(edge.node)
    return any(surely_asks_rank(script.control, guard.test) for guard in guards)
