"""Which expressions go into a loss that `backward()` is called on."""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.liveness import taken_over
from ddpify.understanding.taint.flow_edges import FlowEdge
from ddpify.understanding.taint.locations import Location


def reaches_loss(script: Script, node: cst.CSTNode) -> bool:
    """Whether an expression's value goes, through names and functions, into a loss."""
    for above in script.structure_of(node).up(node):
        if above in script.facts.backwards:
            return True
        if isinstance(above, cst.BaseStatement):
            break

    def too_late(edge: FlowEdge) -> bool:
        return _comes_too_late(script, edge)

    return bool(script.flow.derived(takes(script, node), too_late) & script.loss_locations)


def takes(script: Script, node: cst.CSTNode) -> set[Location]:
    """The slots that hold what is made of an expression in its own statement."""
    found: set[Location] = set()
    for above in (node, *script.structure_of(node).up(node)):
        for edge in script.flow.edges_at(above):
            if edge.passes and above is node:
                continue  # into the function that it calls go its arguments, not its result
            found |= set() if _comes_too_late(script, edge) else set(edge.targets)
        if isinstance(above, cst.BaseStatement):
            break
    return found


def _comes_too_late(script: Script, edge: FlowEdge) -> bool:
    """Whether a name is set behind all ``backward()`` of its function, and not read again.

    A later round of a loop may take over what this one has left.
    """
    structure = script.structure_of(edge.node)
    function, order = structure.function(edge.node), structure.order
    backwards = [
        one
        for one in script.facts.backwards
        if one in order and structure.function(one) is function
    ]
    if not backwards or order[edge.node] < max(order[one] for one in backwards):
        return False
    if any(location[0] != "name" for location in edge.targets):
        return False  # attributes outlive the function
    names = {location[-1] for location in edge.targets}
    around = [
        loop
        for loop in structure.loops(edge.node)
        if any(loop in structure.loops(one) for one in backwards)
    ]
    return not any(names & taken_over(loop) for loop in around)
