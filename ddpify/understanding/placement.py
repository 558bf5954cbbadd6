"""Where a value lives among the ranks, and what arithmetic does to it.

The terms are those of ``torch.distributed.tensor``: a value is replicated, sharded along its
batch dimension, or partial, that is, one rank's contribution to a mean or a sum over the batch.
"""

from __future__ import annotations

from enum import Enum


class Placement(Enum):
    """What one rank holds of a value of the single-process script."""

    REPLICATE = "replicate"  # the same on every rank
    SHARD = "shard"  # this rank's rows of the global batch
    ROWS = "rows"  # rows picked from a shard by position: not what one process would pick
    MEAN = "partial mean"  # the mean over this rank's rows
    SUM = "partial sum"  # the sum over this rank's rows
    COUNT = "count"  # the number of this rank's rows
    PER_COUNT = "per count"  # something replicated, divided by the number of this rank's rows
    WEIGHTED = "weighted mean"  # a mean whose denominator is not the number of rows
    COUPLED = "coupled"  # mixes the rows of the batch in a way that no reduction can undo

    __hash__ = object.__hash__  # each is one object, and Enum's own hash is a function in Python

    @property
    def partial(self) -> bool:
        """Whether ranks must reduce it before anyone reads it."""
        return self in _PARTIAL

    @property
    def local(self) -> bool:
        """Whether ranks hold different values."""
        return self is not Placement.REPLICATE


_PARTIAL = {
    Placement.MEAN,
    Placement.SUM,
    Placement.COUNT,
    Placement.PER_COUNT,
    Placement.WEIGHTED,
    Placement.COUPLED,
}

_R, _S, _M, _SUM = Placement.REPLICATE, Placement.SHARD, Placement.MEAN, Placement.SUM
_N, _PER_N, _ROWS = Placement.COUNT, Placement.PER_COUNT, Placement.ROWS

_ADD = {(_M, _M): _M, (_M, _R): _M, (_SUM, _SUM): _SUM, (_N, _N): _N}
_MULTIPLY = {(_M, _R): _M, (_SUM, _R): _SUM, (_N, _R): _N, (_M, _N): _SUM}
_MULTIPLY |= {(_PER_N, _R): _PER_N, (_SUM, _PER_N): _M}
_DIVIDE = {(_M, _R): _M, (_SUM, _R): _SUM, (_N, _R): _N, (_SUM, _N): _M, (_R, _N): _PER_N}
_DIVIDE |= {(_PER_N, _R): _PER_N}


def combine(operator: str, left: Placement, right: Placement) -> Placement | None:
    """The placement of ``left operator right``, or None where an operand must be reduced first."""
    if left is right is _R:
        return _R
    if _ROWS in (left, right):  # a sample beside what its batch has made is beside its others
        return None if left.partial or right.partial else _ROWS
    if _S in (left, right):
        other = right if left is _S else left
        return _S if other in (_R, _S, _N) else None
    if operator in "+-":
        return _ADD.get((left, right)) or _ADD.get((right, left))
    if operator == "*":
        return _MULTIPLY.get((left, right)) or _MULTIPLY.get((right, left))
    if operator == "/":
        return _DIVIDE.get((left, right))
    if operator == "//" and left is _N and right is _R:
        return _N  # rounded, which a sum of the ranks' parts is not
    return None
