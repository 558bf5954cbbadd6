"""What one step was computed from besides the samples: targets, and what earlier rounds left."""

from __future__ import annotations

from collections.abc import Sequence

from ddpify.verify.compare.evidence import sizes, unmatched
from ddpify.verify.compare.records import Step


def other_targets(own: Step, ranks: Sequence[Step]) -> str:
    """How the losses' targets are not the original's, in words; empty where they are.

    Ranks whose losses take gathered rows have more than the original: no fault in itself.
    """
    if not own.pairs or not all(step.pairs for step in ranks):
        return ""
    missing = _missing(own.targets, [step.targets for step in ranks])
    if missing:
        return (
            f"of {len(own.targets)} rows that the losses take as targets, {missing} reach no rank"
        )
    alike = not _missing(own.predictions, [step.predictions for step in ranks])
    missing = _missing(own.pairs, [step.pairs for step in ranks])
    return (
        f"{missing} of {len(own.pairs)} predictions meet another target" if alike * missing else ""
    )


def same_pairs(own: Step, ranks: Sequence[Step]) -> bool:
    """Whether the ranks' losses together take the original's predictions with their targets."""
    found = [pair for step in ranks for pair in step.pairs]
    return bool(own.pairs) and not any(unmatched(own.pairs, found))


def _missing(own: Sequence[float], ranks: Sequence[Sequence[float]]) -> int:
    """How many of the original's rows no rank has."""
    return len(unmatched(own, [row for rows in ranks for row in rows])[0])


def other_carried(own: Step, ranks: Sequence[Step], limit: float) -> list[str]:
    """Tensors of equal shape, made before the step's first forward, that are not the original's."""
    found = []
    for name, (shape, mark) in own.carried.items():
        theirs = [step.carried.get(name) for step in ranks]
        same_shape = [other[1] for other in theirs if other is not None and other[0] == shape]
        if len(same_shape) == len(ranks) and any(
            size > limit for other in same_shape for size in sizes([mark], [other])
        ):
            found.append(name)
    return found
