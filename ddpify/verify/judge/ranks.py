"""What the ranks do beside the arithmetic: their shares of the work, collectives, devices."""

from __future__ import annotations

from collections.abc import Sequence

from ddpify.verify.compare import causes, matching
from ddpify.verify.compare.records import Totals
from ddpify.verify.verdict import Check, Comparison, Difference, What

LEAST_WORK = 0.75
"""Share of the original's work that the ranks together do at least."""


def is_split(nproc: int, own: Totals, ranks: Sequence[Totals]) -> bool:
    """Whether no rank does much more than its share of the original's work."""
    most = max(record.work for record in ranks)
    return not own.work or nproc == 1 or most / own.work < (1 + 1 / nproc) / 2


def work(comparison: Comparison, own: Totals, ranks: Sequence[Totals]) -> None:
    """The share of the original's work that each rank does: elements that meet parameters."""
    if not own.work or comparison.nproc == 1:
        return
    shares = [record.work / own.work for record in ranks]
    listed = " ".join(f"{share:.0%}" for share in shares) + " of the original's by rank"
    split = is_split(comparison.nproc, own, ranks)
    idle = sum(shares) < LEAST_WORK
    comparison.checks.append(Check("work divided", split and not idle, listed))
    if not split:
        rank = max(range(len(shares)), key=shares.__getitem__)
        text = f"the work is not split: rank {rank} does {shares[rank]:.0%} of the original's"
        found = Difference(What.WORK, text, size=shares[rank], rank=rank, cause=causes.NOT_SPLIT)
        comparison.differences.append(found)
    elif idle:
        text = f"the ranks together do {sum(shares):.0%} of the original's work"
        comparison.differences.append(Difference(What.WORK, text, cause=causes.IDLE))


def collectives(comparison: Comparison, ranks: Sequence[Totals]) -> None:
    """Add the row, and the first place where the ranks' collectives do not match."""
    found = matching.first(ranks, ended=True)
    if found is not None:
        comparison.differences.append(found.difference())
    count = f"{len(ranks[0].collectives)} on rank 0"
    comparison.checks.append(Check("collectives", found is None, count))


def devices(comparison: Comparison, ranks: Sequence[Totals]) -> None:
    """What would go wrong on GPUs alone: others' devices, and moves that the wrapper misses."""
    if moved := ranks[0].moved:
        how, at = moved[0]
        text = f"the model is {how} after it was wrapped"
        found = Difference(What.DEVICE, text, cause=causes.MOVED, at=at)
        comparison.differences.append(found)
    for rank, record in enumerate(ranks):
        others = {int(index) for index in record.devices} - {rank}
        if others:
            text = f"rank {rank} uses cuda:{min(others)}"
            found = Difference(What.DEVICE, text, rank=rank, cause=causes.DEVICE)
            comparison.differences.append(found)
            return
        if rank and "torch.load without map_location" in record.faked:
            text = f"rank {rank} loads a checkpoint without map_location"
            found = Difference(What.DEVICE, text, rank=rank, cause=causes.MAP_LOCATION)
            comparison.differences.append(found)
            return
