"""The verdict of one comparison."""

from __future__ import annotations

from ddpify.verify.judge.arithmetic import ARITHMETIC
from ddpify.verify.verdict import Comparison, Kind, What


def conclude(comparison: Comparison) -> None:
    """Set the verdict of a comparison whose runs ended well."""
    order = list(What)
    comparison.differences.sort(key=lambda item: order.index(item.what))
    if comparison.same_arithmetic is None and not comparison.unjudged:
        found = [item for item in comparison.differences if item.what in ARITHMETIC]
        comparison.same_arithmetic = not found
    named = [item.cause and item.cause.name for item in comparison.differences]
    if all(named) and not comparison.unjudged:
        comparison.kind = Kind.EXCEPT if named else Kind.EQUIVALENT
    else:
        comparison.kind = Kind.NOT_EQUIVALENT
