"""Several loaders in one step: whose batch the next lines go by."""

from ddpify.runtime.process import world_size
from ddpify.runtime.share import loops
from ddpify.runtime.shared_loader import SharedLoader


def at_hand(loader: object) -> None:
    """Make the latest batch of a loader the one at hand again.

    For a step that takes batches of several loaders, of different sizes: ``mean``, ``sum``,
    ``gather`` and models go by how the batch that came last is shared, until the next one comes.
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
