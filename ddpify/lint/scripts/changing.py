"""Conditions whose answer may be another one in the next round of a loop."""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.definite_assignment import target_names
from ddpify.understanding.structure import walk

_DEEP = 4  # from one name to the next


def may_change(script: Script, test: cst.BaseExpression, place: cst.CSTNode) -> bool:
    """Whether a condition may be answered otherwise in another round of the loops around a place:
    an option is not, nor an attribute that is set before them.
    """
    inside = {node for loop in script.control.around(place) for node in script.reached(loop)}
    return _may_change(script, test, inside, _DEEP)


def _may_change(
    script: Script, test: cst.BaseExpression, inside: set[cst.CSTNode], depth: int
) -> bool:
    for node in walk(test):
        if isinstance(node, cst.Call) and not script.value(node).atoms:
            return True
        if not isinstance(node, (cst.Name, cst.Attribute)) or node not in script.owners:
            continue
        if isinstance(node, cst.Name) and _is_counted(script, node, inside):
            return True
        for edge in script.flow.edges_into(script.control.locations(node)):
            if edge.node not in inside:
                continue
            if not edge.passes or edge.value is None or not depth:
                return True
            if _may_change(script, edge.value, inside, depth - 1):
                return True
    return False


def _is_counted(script: Script, name: cst.Name, inside: set[cst.CSTNode]) -> bool:
    """Whether a loop around a name gives it a value in each round."""
    return any(
        name.value in target_names(loop.target)
        for loop in script.structure_of(name).loops(name)
        if isinstance(loop, cst.For) and loop.body in inside
    )
