"""Several batches in one step: which of them the next lines use."""

from typing import Any

import torch

from ddpify.runtime.batch import number_of_samples
from ddpify.runtime.process import world, world_size
from ddpify.runtime.reduce import exchanged, gather, shared_as
from ddpify.runtime.share import Loop, bounds, loops, share_of
from ddpify.runtime.shared_loader import SharedLoader


def use_batch_of(batch: Any) -> None:
    """Make a batch that came before the latest one the current batch, until the next one comes.

    ``mean``, ``sum``, ``gather`` and models use the batch that came last. That is another where a
    step takes batches of several loaders, or takes the next batch before it uses this one.
    batch: a loader that ``shard`` or ``replicate`` gave, for its latest batch; or rows of a batch:
    a tensor or array with a row a sample, a list of samples, or what holds such. Those are told by
    their numbers on the ranks, with a small collective where batches of several sizes have come
    that give a rank as many rows as each other. Nothing on one process.

    Raises TypeError for another object, RuntimeError where no batch has come from the loader, or
    where the rows are as many as in none of the batches so far, or as in several of them.
    """
    if world_size() == 1:
        return
    if not isinstance(batch, SharedLoader):
        _use_rows(batch)
    elif batch.ddpify_latest is None:
        raise RuntimeError("no batch has come from this loader")
    else:
        loops().yielded(batch.ddpify_latest)


def _use_rows(batch: Any) -> None:
    rows, place = number_of_samples(batch), world()
    if rows is None:
        kind = type(batch).__name__
        raise TypeError(f"a {kind} is no loader that shard() or replicate() gave, and has no rows")
    counts = {total: _rows_of_ranks(total) for total in sorted(loops().totals)}
    if all(len(set(same)) == len(counts) for same in zip(*counts.values(), strict=True)):
        fitting = [total for total, each in counts.items() if each[place.rank] == rows]
    else:
        own = exchanged(torch.tensor([rows], device=place.device)).flatten().tolist()
        fitting = [total for total, each in counts.items() if each == own]
    if len(fitting) != 1:
        fits = " and ".join(f"{total}" for total in fitting) or "none"
        raise RuntimeError(
            f"{rows} rows of a rank fit {fits} of the batches so far, of {[*counts]} samples: which"
            " one they are of must be clear from how many rows the ranks have; where batches have"
            " fewer samples than there are ranks, give the loader drop_last=True"
        )
    loop = Loop()
    loop.share = share_of(fitting[0], place.rank, place.size)
    loop.kept = True  # it ends with the next batch
    loops().yielded(loop)


def _rows_of_ranks(total: int) -> list[int]:
    """How many rows each rank has of a batch; a rank without a sample has a ghost."""
    parts = (bounds(total, rank, world_size()) for rank in range(world_size()))
    return [max(last - first, 1) for first, last in parts]


def first(x: Any, count: int, *, of: object) -> Any:
    """This rank's rows of the first ``count`` rows of the latest batch of a loader.

    x: a tensor or array with a row a sample, as the loader ``of`` gave them. The batch that is cut
    becomes the current batch, until the next one comes. Returns the same kind; on one process, and
    of a replicated batch, ``x[:count]``. A collective where there is anything to cut off.
    """
    share = shared_as(of)
    if share is None:
        return x[:count]
    if count >= share.total:
        use_batch_of(of)
        return x
    loop = Loop()
    loop.share = share_of(count, world().rank, world_size())
    loop.kept = True  # it ends with the next batch
    rows = gather(x, of=of)[:count]
    loops().yielded(loop)
    start, end = bounds(count, world().rank, world_size())
    return rows[start:end] if end > start else rows[:1]
