"""Data loaders whose every batch is shared among the ranks, or the same on all of them.

Every rank keeps the script's own sampler and draws the same global batches from it; a sharded
loader then fetches this rank's contiguous part of each. No sampler is replaced, no sample
repeated or left out.
"""

import copy
import functools
from typing import Any, TypeVar, cast

from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset, default_collate
from torch.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

from ddpify.runtime.batch import Dimensions
from ddpify.runtime.classes import subclass_of
from ddpify.runtime.distributed_order import DistributedBatches, ListedBatches
from ddpify.runtime.indices import compact
from ddpify.runtime.joined import JoinedBatches, report_batch
from ddpify.runtime.parts import GlobalCollate, PartCollate, PartSampler
from ddpify.runtime.position import position
from ddpify.runtime.process import warn_once, world, world_size
from ddpify.runtime.shared_loader import SharedLoader, generators_of
from ddpify.runtime.worker_seeds import WorkerSeed

AnyLoader = TypeVar("AnyLoader", bound=DataLoader[Any])

_CHOICES = {
    "sampler": ("exact", "distributed"),
    "batch": ("global", "per-rank"),
    "collate": ("local", "global", "unread"),
}


def shard(
    loader: AnyLoader,
    *,
    sampler: str = "exact",
    batch: str = "global",
    collate: str = "local",
    dim: Dimensions = 0,
    joined: bool = False,
    seeds: bool = False,
) -> AnyLoader:
    """A loader that yields this rank's part of each batch of ``loader`` (the global batch).

    Attributes and length are those of ``loader``; a plain ``python`` run gets ``loader``
    itself. Parts differ by at most one sample; a rank that a short batch leaves without one
    gets a copy of the batch's first, which counts for nothing. Each iter() is a collective.

    An iterable data set is read whole on every rank, for each to keep its part. Batches that
    the loader does not put together itself (``batch_size=None``) are split if its sampler
    yields lists, else replicated.

    ``sampler="distributed"`` takes the samples in the order of PyTorch's DistributedSampler
    instead of the loader's own, which differs from the original's.

    ``batch="per-rank"`` takes the batches of ``loader`` for those of each rank: as many
    consecutive ones as there are ranks make one global batch. Lengths shrink accordingly.

    ``collate="global"`` lets every rank fetch whole batches and put them together, so that what
    the collate function pads is as long as in one process, and what it computes is computed of
    all samples. Then each rank keeps its rows: along ``dim``, which may be one for each part of a
    tuple, or of a dict or an object by its name; None is for a part that has no rows. Where the
    collate function leaves samples out, the ranks share the rows that are left.
    ``collate="unread"`` does so where it is not known what the collate function makes: a tensor
    that has not a row for each sample raises ValueError, and so does a number.

    ``joined``: the script joins its rows with those of another loader, of another number, where
    a rank that has none cannot be told from one that has a single one: a batch of fewer samples
    than there are ranks raises RuntimeError on all of them.

    ``seeds``: the data set seeds the global generators for each sample. Where it is read in the
    main process, each rank also takes the last sample of each global batch, which leaves them
    as in one process.

    Raises TypeError for what is not a torch DataLoader, or one over a DataPipe, for a sampler
    that DistributedSampler cannot take the place of, and with ``batch="per-rank"`` for one that
    does not put batches together itself.
    """
    _check_choices(sampler=sampler, batch=batch, collate=collate)
    shared = _shared(loader)
    if not isinstance(shared, SharedLoader) or shared is loader:
        return loader
    shared.__dict__.update(ddpify_joined=joined, ddpify_seeds=seeds, ddpify_unsharded=loader)
    if batch == "per-rank":
        _join_batches(shared)
    order = None
    if sampler == "distributed" and not isinstance(shared.dataset, IterableDataset):
        order = DistributedBatches(loader, world_size(), batch) if world_size() > 1 else None
    if collate != "local" and shared.batch_sampler is not None:
        if order is not None:
            shared.__dict__["batch_sampler"] = ListedBatches(order)
        _share_rows(shared, dim, every=collate == "unread")
    elif isinstance(shared.dataset, IterableDataset):
        _share_samples(shared)
    else:
        _share_indices(shared)
        if order is not None and shared.ddpify_sampler is not None:
            shared.ddpify_sampler.whole = order
    return shared


def _check_choices(**given: str) -> None:
    for name, choice in given.items():
        *others, last = map(repr, _CHOICES[name])
        if choice not in _CHOICES[name]:
            raise ValueError(f"{name} is {', '.join(others)} or {last}, not {choice!r}")


def _before_sharding(loader: AnyLoader) -> AnyLoader:
    """What shard() was given, if it made this loader; else the loader."""
    return cast(AnyLoader, loader.__dict__.get("ddpify_unsharded", loader))


def _join_batches(shared: SharedLoader) -> None:
    """Let a global batch be as many of the loader's own as there are ranks."""
    if shared.batch_sampler is None:
        raise TypeError("batch='per-rank' needs a loader that makes batches: give it a batch_size")
    joined = JoinedBatches(shared.batch_sampler, world_size(), drop_last=shared.drop_last)
    shared.__dict__["batch_sampler"] = joined
    report_batch(shared.batch_size)


def replicate(loader: AnyLoader, *, aside: bool = False) -> AnyLoader:
    """A loader that yields every batch of ``loader`` whole, on every rank.

    A plain ``python`` run gets ``loader`` itself; of a sharded loader it makes one of whole
    batches. Each iter() is a collective. With ``aside`` its batches do not become the current
    batch: they are taken in the middle of a step.
    """
    shared = _shared(_before_sharding(loader))
    if isinstance(shared, SharedLoader) and shared is not loader:
        shared.__dict__["ddpify_aside"] = aside
    return shared


def _shared(loader: AnyLoader) -> AnyLoader:
    """A copy of ``loader`` that is a SharedLoader and does nothing with its batches yet."""
    alone = world_size() == 1
    if isinstance(loader, SharedLoader) or (alone and not position().active):
        return loader
    if not isinstance(loader, DataLoader):
        raise TypeError(
            f"a {type(loader).__name__} is no torch DataLoader: its batches cannot be shared"
        )
    if isinstance(loader.dataset, IterDataPipe | MapDataPipe):
        raise TypeError(
            "a DataPipe splits itself among the ranks: give its DataLoader a plain data set"
        )
    shared = copy.copy(loader)
    shared.__class__ = _shared_class(cast(Any, type(loader)))
    # Out of order, ranks would pair parts of different batches.
    shared.__dict__.update(
        ddpify_sampler=None, ddpify_in_batch=False, in_order=True, _iterator=None
    )
    return shared


def _share_indices(shared: SharedLoader) -> None:
    batched = shared.batch_sampler is not None
    shared.__dict__["ddpify_sampler"] = PartSampler(
        compact(shared.batch_sampler) if batched else shared.sampler,
        batched=batched,
        draws_here=shared.num_workers == 0 and not _draws_nothing(shared),
        generators=generators_of(shared),
    )
    if batched and world_size() > 1:
        # Else single samples may turn out to be replicated, to be read alike on all ranks.
        shared.worker_init_fn = WorkerSeed(shared.worker_init_fn, world().rank)


def _share_samples(shared: SharedLoader) -> None:
    if shared.batch_size is None:
        warn_once("an iterable data set with batch_size=None: every rank takes all of it")
        return
    place = world()
    if place.size == 1:
        return
    warn_once(
        f"an iterable data set is read whole by each of the {place.size} ranks, which keeps "
        "its part of every batch: reading and decoding take as long as on one"
    )
    shared.collate_fn = PartCollate(shared.collate_fn, place.rank, place.size)
    shared.__dict__["ddpify_in_batch"] = True


def _share_rows(shared: SharedLoader, dim: Dimensions, *, every: bool) -> None:
    place = world()
    if place.size > 1:
        whole, rank, size = shared.collate_fn, place.rank, place.size
        shared.collate_fn = GlobalCollate(whole, rank, size, dim, every=every)
        shared.__dict__["ddpify_in_batch"] = True


@functools.cache
def _shared_class(plain: Any) -> Any:
    return subclass_of(plain, SharedLoader)


def _draws_nothing(loader: DataLoader[Any]) -> bool:
    """Whether a fetch is known to draw no random numbers: rows of tensors, put together."""
    data: Any = loader.dataset
    while type(data) is Subset:
        data = data.dataset
    return type(data) is TensorDataset and loader.collate_fn is default_collate
