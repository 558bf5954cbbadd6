"""What a report draws: a value for each step, past the first difference too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from ddpify.verify.compare import records
from ddpify.verify.compare.differences import TOLERANCE
from ddpify.verify.compare.evidence import sizes
from ddpify.verify.compare.records import Step
from ddpify.verify.verdict import Series

MAX_NAMES = 250
"""Parameters that are drawn; of more, those in the middle are left out evenly."""


def read(original: Path, ranks: Sequence[Path], reference: Path | None) -> Series:
    """The losses and the parameters' divergence, step by step.

    Args:
        original: Record of the original.
        ranks: Records of the ranks.
        reference: Record of the original on the ranks' batches, which they are then compared with.
    """
    names = [name for start in records.optimizers(original).values() for name in start.names]
    offsets = _offsets(original)
    shown = _spread(len(names))
    found = Series(names=[names[at] for at in shown], limit=TOLERANCE)
    found.divergence = [[] for _ in shown]
    for own, again, others in _steps(original, reference, ranks):
        found.original.append(_loss([own]))
        found.converted.append(_loss(others))
        if reference is not None:
            found.reference.append(_loss([again]))
        column = _column(again if reference else own, others, offsets)
        for row, at in zip(found.divergence, shown, strict=True):
            row.append(column.get(at))
    return found


def _offsets(path: Path) -> dict[int, int]:
    """Where each optimizer's parameters begin among all."""
    offsets, total = {}, 0
    for number, start in records.optimizers(path).items():
        offsets[number] = total
        total += len(start.names)
    return offsets


def _spread(count: int) -> list[int]:
    """Indices of at most ``MAX_NAMES`` of ``count``, evenly."""
    kept = min(count, MAX_NAMES)
    return [at * count // kept for at in range(kept)]


def _steps(
    original: Path, reference: Path | None, ranks: Sequence[Path]
) -> Iterator[tuple[Step | None, Step | None, list[Step | None]]]:
    paths = [original, *([reference] if reference else []), *ranks]
    for steps in zip_longest(*map(records.steps, paths)):
        first = 2 if reference else 1
        yield steps[0], steps[1] if reference else None, list(steps[first:])


def _loss(steps: Sequence[Step | None]) -> float | None:
    """The loss of a step, of a window of backwards their mean, over the ranks their mean."""
    values = [value for step in steps if step for call in step.losses for value in call]
    return sum(values) / len(values) if values else None


def _column(
    own: Step | None, ranks: Sequence[Step | None], offsets: dict[int, int]
) -> dict[int, float]:
    """The largest relative difference of each parameter at one step."""
    found: dict[int, float] = {}
    for step in ranks:
        if own is None or step is None or step.optimizer != own.optimizer:
            continue
        if len(step.params) == len(own.params):
            for at, size in enumerate(sizes(own.params, step.params), offsets[own.optimizer]):
                found[at] = max(found.get(at, 0.0), size)
    return found
