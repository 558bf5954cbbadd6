"""Numbers that each step has kept apart, in a list or under an index."""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.definite_assignment import target_names
from ddpify.understanding.taint.sources import TOTAL


def is_of_a_step(script: Script, node: cst.BaseExpression) -> bool:
    """``losses[i]``, ``for one in losses:``, where each step has appended its own number."""
    kept = _taken_from(script, node)
    if kept is None:
        return False
    held = script.flow.ancestry(kept, script.module)
    locations = {one.location for one in held if one.location is not None}
    edges = [edge for edge in script.flow.edges_into(locations) if edge.value is not None]
    return any(edge.adds for edge in edges) and not any(
        (edge.adds and not isinstance(edge.node, cst.Call))
        or (_appends(edge.node) and edge.value and TOTAL in script.labels(edge.value))
        for edge in edges
    )


def _taken_from(script: Script, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """What an expression is one item of: by its index, or in a loop over all of them.

    ``losses["total"]`` is no step's number.
    """
    if isinstance(node, cst.Subscript):
        part = node.slice[0].slice
        by_place = isinstance(part, cst.Index) and not isinstance(part.value, cst.SimpleString)
        return node.value if by_place else None
    name = node.value if isinstance(node, cst.Name) else ""
    for loop in script.structure.loops(node) if name else ():
        if isinstance(loop, cst.For) and name in target_names(loop.target):
            return loop.iter
    return None


def _appends(node: cst.CSTNode) -> bool:
    return (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and node.func.attr.value == "append"
    )
