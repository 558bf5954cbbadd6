"""Several loaders in one step: which loader's batch the next lines use."""

from typing import Any

from ddpify.runtime.process import world, world_size
from ddpify.runtime.reduce import gather, shared_as
from ddpify.runtime.share import Loop, bounds, loops, share_of
from ddpify.runtime.shared_loader import SharedLoader


def use_batch_of(loader: object) -> None:
    """Make the latest batch of a loader the current batch again.

    For a step that takes batches of several loaders, of different sizes: ``mean``, ``sum``,
    ``gather`` and models use the batch that came last, until the next one comes.
    loader: one that ``shard`` or ``replicate`` gave. No communication; nothing on one process.

    Raises TypeError for another object, RuntimeError where no batch has come from it.
    """
    if world_size() == 1:
        return
    if not isinstance(loader, SharedLoader):
        raise TypeError(f"a {type(loader).__name__} is no loader that shard() or replicate() gave")
    if loader.ddpify_latest is None:
        raise RuntimeError("no batch has come from this loader")
    loops().yielded(loader.ddpify_latest)


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
