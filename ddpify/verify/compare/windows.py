"""Alignment by backwards: whether a step ends the same window of micro-batches as the
original's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ddpify.verify.compare import causes, records
from ddpify.verify.compare.evidence import RowComparison, compare_rows
from ddpify.verify.compare.records import Step
from ddpify.verify.verdict import Difference, What


def other(
    number: int, own: Step, ranks: Sequence[Step], paths: Sequence[Path]
) -> Difference | None:
    """A step after another number of micro-batches, if it has other samples for that.

    Ranks that share out the micro-batches have fewer each, and the original's samples together.

    Args:
        number: The step.
        own: The original's.
        ranks: The ranks'.
        paths: The records of the original and of the ranks.
    """
    counts = [len(step.losses) for step in ranks]
    if not own.losses or all(count == len(own.losses) for count in counts) or 0 in counts:
        return None
    rows = compare_rows(own, ranks)
    if rows is None or rows.same:
        return None
    ends = [_ends(path, own.optimizer) for path in paths]
    local = any(found != ends[1] for found in ends[2:])
    cause = causes.RANK_LOCAL_STEPS if local else causes.EARLY_MICRO_BATCHES
    rank = next(rank for rank, count in enumerate(counts) if count != len(own.losses))
    at = ends[rank + 1][number - 1] if number <= len(ends[rank + 1]) else counts[rank]
    wanted = ends[0][number - 1] if number <= len(ends[0]) else len(own.losses)
    text = (
        f"step {number} on rank {rank} comes after micro-batch {at}, in the original after "
        f"micro-batch {wanted}; in all {len(ends[rank + 1])} steps, in the original {len(ends[0])}"
    )
    return Difference(What.STEPS, text, number, rank=rank, cause=cause, at=ranks[rank].at)


def shorter(
    number: int,
    own: Step,
    ranks: Sequence[Step],
    rows: RowComparison | None,
    paths: Sequence[Path],
) -> Difference | None:
    """A step with another number of samples than the original's, of runs with other numbers of
    steps, after steps that had the original's samples: a batch is left out, or one too many.

    Args:
        number: The step.
        own: The original's.
        ranks: The ranks'.
        rows: Their rows against the original's.
        paths: The records of the original and of the ranks.
    """
    if number == 1 or rows is None or rows.missing == rows.extra:
        return None
    wanted, *found = (len(_ends(path, own.optimizer)) for path in paths)
    if wanted == found[0] or any(count != found[0] for count in found):
        return None
    text = (
        f"step {number} has {rows.total - rows.missing + rows.extra} rows, in the original "
        f"{rows.total}; in all {found[0]} steps, in the original {wanted}"
    )
    return Difference(What.STEPS, text, number, cause=causes.STEPS, at=ranks[0].at)


def _ends(path: Path, optimizer: int) -> list[int]:
    """After how many backwards the steps of an optimizer come."""
    ends, count = [], 0
    for step in records.steps(path):
        count += len(step.losses)
        if step.optimizer == optimizer:
            ends.append(count)
    return ends
