"""Where the number of a rank goes, or how many there are.

The answer to a question about it, as ``rank == 0``, tells two kinds of ranks apart. It shares
nothing out among all of them.
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from ddpify.understanding.taint.dependencies import Dependency
from ddpify.understanding.taint.flow import Flow
from ddpify.understanding.taint.flow_edges import FlowEdge
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.taint.sources import ANY_RANK, WORLD

NUMBERS = ANY_RANK | {WORLD}


def numbered(flow: Flow, numbers: frozenset[str] = NUMBERS) -> set[Location]:
    """What holds a rank's number, or anything that is made of it."""
    start = {location for location, label in flow.begun if label in numbers}
    for edge in flow.edges:
        if not _is_answer(edge) and any(one.label in numbers for one in _all(edge.source)):
            start |= set(edge.targets)
    return flow.derived(start, without=_is_answer)


def is_numbered(
    made: Iterable[Dependency], known: set[Location], numbers: frozenset[str] = NUMBERS
) -> bool:
    """Whether a rank's number is in what an expression depends on."""
    return any(one.label in numbers or one.location in known for one in _all(made))


def _all(made: Iterable[Dependency]) -> Iterable[Dependency]:
    for one in made:
        yield one
        yield from _all(one.given or ())


def _is_answer(edge: FlowEdge) -> bool:
    return edge.value is not None and _answers(edge.value)


def _answers(node: cst.BaseExpression) -> bool:
    """Whether an expression is true or false: ``local_rank or 0`` is a number."""
    if isinstance(node, cst.BooleanOperation):
        return _answers(node.left) and _answers(node.right)
    if isinstance(node, cst.UnaryOperation):
        return isinstance(node.operator, cst.Not)
    return isinstance(node, cst.Comparison)
