"""Comparison of models beyond their parameters: settings, modes, and models that no optimizer
holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ddpify.verify.compare import causes
from ddpify.verify.compare.evidence import sizes
from ddpify.verify.compare.records import Mark, OptimizerStart, Step
from ddpify.verify.verdict import Difference, What


def other_setting(own: OptimizerStart | None, other: OptimizerStart | None) -> str:
    """A setting of a layer that is not the original's, in words; empty where all are."""
    if own is None or other is None:
        return ""
    for layer, mine in own.settings.items():
        theirs = other.settings.get(layer, {})
        for name in mine.keys() & theirs.keys():
            if mine[name] != theirs[name]:
                return f"{name} of layer {layer} is {theirs[name]}, not {mine[name]}"
    return ""


def buffers(
    starts: Sequence[OptimizerStart | None], own: Step, ranks: Sequence[Step]
) -> list[list[Mark]]:
    """The ranks' buffers in the original's order; one that they lack counts as the original's.

    Args:
        starts: Of the original's optimizer, and of each rank's.
        own: The original's step.
        ranks: The ranks' steps.
    """
    mine, *others = [start.buffers if start else [] for start in starts]
    found = []
    for theirs, step in zip(others, ranks, strict=False):
        named = dict(zip(theirs, step.buffers, strict=False))
        pairs = zip(mine, own.buffers, strict=False)
        found.append([named.get(name, mark) for name, mark in pairs])
    return found


def modes(own: Step, ranks: Sequence[Step]) -> tuple[bool, bool]:
    """Whether layers are in evaluation mode in the original alone, and on a rank alone."""
    mine = set(own.evaluating)
    theirs = [set(step.evaluating) for step in ranks]
    return any(mine - layers for layers in theirs), any(layers - mine for layers in theirs)


def outside(number: int, own: Step, ranks: Sequence[Step], limit: float) -> Difference | None:
    """A model outside of the optimizer that is not the original's on rank 0."""
    name, size = _first(own.others, [step.others for step in ranks[:1]], limit)
    if not name:
        return None
    text = f"before the step, {name}, which no optimizer holds, is not the original's"
    return Difference(What.BETWEEN, text, number, name, size, limit, 0, causes.OUTSIDE)


def dropout(number: int, own: Step, ranks: Sequence[Step]) -> Difference | None:
    """A dropout that is active in the original alone, or on a rank alone."""
    rank = next((rank for rank, step in enumerate(ranks) if step.drops != own.drops), None)
    if rank is None:
        return None
    cause = causes.MODE if own.drops else replace(causes.MODE, text=causes.TRAINING)
    how = "is off" if own.drops else "is on"
    text = f"dropout {how} in step {number} on rank {rank}, and in the original it is not"
    return Difference(What.LOSS, text, number, rank=rank, cause=cause, at=ranks[rank].at)


def apart(ranks: Sequence[Step], limit: float) -> str:
    """The name of a tensor outside of the optimizer that differs between the ranks.

    That alone is no fault: many scripts keep an average of the weights on rank 0 alone.
    """
    marks = [step.others for step in ranks]
    return _first(marks[0], marks[1:], limit)[0] if marks else ""


def kept(own: Step, ranks: Sequence[Step], limit: float) -> str:
    """The name of a tensor that outlives the steps and is not the original's on some rank.

    That alone is no fault: a sum over one rank's samples is none before it is reduced.
    """
    return _first(own.kept, [step.kept for step in ranks], limit)[0]


def _first(
    reference: dict[str, Mark], others: Sequence[dict[str, Mark]], limit: float
) -> tuple[str, float]:
    for found in others:
        shared = [name for name in reference if name in found]
        marks = [[each[name] for name in shared] for each in (reference, found)]
        for name, size in zip(shared, sizes(*marks), strict=True):
            if size > limit:
                return name, size
    return "", 0.0
