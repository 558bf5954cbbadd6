"""Data loaders whose every batch is shared among the ranks, or the same on all of them.

Every rank keeps the script's own sampler and draws the same global batches from it; a sharded
loader then fetches this rank's contiguous part of each. No sampler is replaced, no sample
repeated or left out.
"""

import copy
import functools
import itertools
import random
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, cast

import torch
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    Subset,
    TensorDataset,
    default_collate,
    get_worker_info,
)
from torch.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

from ddpify.runtime.batch import rows_of
from ddpify.runtime.classes import subclass_of
from ddpify.runtime.indices import compact
from ddpify.runtime.joined import JoinedBatches, report_batch
from ddpify.runtime.order import DistributedBatches
from ddpify.runtime.position import Pass, position
from ddpify.runtime.process import world, world_size
from ddpify.runtime.rng import (
    broadcast_random_state,
    enter_own_stream,
    fork_own_stream,
    leave_own_stream,
)
from ddpify.runtime.share import Loop, Share, bounds, current_share, loops, share_of

AnyLoader = TypeVar("AnyLoader", bound=DataLoader[Any])


class Parts:
    """One pass over a sampler's global batches: yields this rank's indices, notes each share."""

    def __init__(self, sampler: "PartSampler", batches: Iterator[Any]) -> None:
        self.sampler = sampler
        self.batches = batches
        self.shares: deque[Share | None] = deque()
        self.under_way = position().opening

    def __iter__(self) -> "Parts":
        return self

    def __next__(self) -> Any:
        sampler = self.sampler
        sampler.latest = self
        batch = self._next_batch()
        if not sampler.batched and not _is_batch(batch):
            _warn_once(
                "a loader with batch_size=None yields single samples: every rank takes them all"
            )
            self.shares.append(None)
            return batch
        if not hasattr(batch, "__getitem__"):
            batch = list(batch)
        place = world()
        share = share_of(len(batch), place.rank, place.size) if place.size > 1 else None
        self.shares.append(share)
        if share is None:
            return batch
        if sampler.draws_here:
            # What follows, in this process, is the fetch of this rank's own samples.
            enter_own_stream()
        if share.ghost:
            return batch[:1]
        first, last = bounds(len(batch), place.rank, place.size)
        return batch[first:last]

    def _next_batch(self) -> Any:
        one, self.under_way = self.under_way, None
        if one is None:
            return next(self.batches)
        return one.draw(self.batches, self.sampler.generators)


class PartSampler:
    """A sampler of global batches, seen from one rank. Its length is the script's own sampler's."""

    def __init__(
        self,
        whole: Any,
        *,
        batched: bool,
        draws_here: bool,
        generators: Sequence[torch.Generator],
    ) -> None:
        self.whole = whole
        self.batched = batched
        self.draws_here = draws_here
        self.generators = generators
        self.latest: Parts | None = None

    def __iter__(self) -> Parts:
        # The inner iterator at once, not at the first batch: a sampler may draw when it is made.
        return Parts(self, iter(self.whole))

    def __len__(self) -> int:
        return len(self.whole)

    def take(self, parts: Parts | None) -> Parts:
        """The pass that a loader's iterator is on: at its first batch, the one that moved last."""
        found = parts or self.latest
        if found is None or not found.shares:
            raise RuntimeError("the loader yielded a batch that did not come from its own sampler")
        return found


class PartCollate:
    """A collate_fn that keeps this rank's part of a global batch, and says how it is shared."""

    def __init__(self, collate: Callable[[Any], Any], rank: int, size: int) -> None:
        self.collate = collate
        self.rank = rank
        self.size = size

    def __call__(self, samples: list[Any]) -> tuple[tuple[int, int, int], Any]:
        """A global batch's samples -> the fields of its Share, and this rank's part collated."""
        share = share_of(len(samples), self.rank, self.size)
        assert share is not None, "a fetcher collates no empty batch"
        first, last = bounds(len(samples), self.rank, self.size)
        own = samples[:1] if share.ghost else samples[first:last]
        return (share.local, share.total, share.rows), self.collate(own)


class WholeCollate(PartCollate):
    """A collate_fn that puts a whole global batch together, and keeps this rank's rows of it."""

    def __init__(
        self, collate: Callable[[Any], Any], rank: int, size: int, dim: int | Sequence[int]
    ) -> None:
        super().__init__(collate, rank, size)
        self.dim = dim

    def __call__(self, samples: list[Any]) -> tuple[tuple[int, int, int], Any]:
        """A global batch's samples -> the fields of its Share, and this rank's rows."""
        total = len(samples)
        share = share_of(total, self.rank, self.size)
        assert share is not None, "a fetcher collates no empty batch"
        first, last = (0, 1) if share.ghost else bounds(total, self.rank, self.size)
        rows = rows_of(self.collate(samples), self.dim, total, first, last)
        return (share.local, share.total, share.rows), rows


class WorkerSeed:
    """A worker_init_fn that gives each rank's workers their own seeds, then runs the script's."""

    def __init__(self, then: Callable[[int], None] | None, rank: int) -> None:
        self.then = then
        self.rank = rank

    def __call__(self, worker_id: int) -> None:
        """In the worker process, before it fetches."""
        info = get_worker_info()
        assert info is not None
        # As if all ranks' workers were one loader's: base_seed + 0, 1, 2, ...
        seed = info.seed + self.rank * info.num_workers
        object.__setattr__(info, "seed", seed)
        random.seed(seed)
        torch.manual_seed(seed)
        if "numpy" in sys.modules:
            numpy = sys.modules["numpy"]
            numpy.random.seed(numpy.random.SeedSequence(seed).generate_state(4))
        if self.then is not None:
            self.then(worker_id)


class SharedIterator:
    """An iterator of a sharded or replicated loader; its other attributes are the plain one's."""

    def __init__(
        self, loader: "SharedLoader", inner: Iterator[Any], under_way: Pass | None
    ) -> None:
        self._loader = loader
        self._inner = inner
        self._pass = under_way
        self._parts: Parts | None = None
        self._loop = Loop()
        self._asked_from: tuple[Any, int] = (None, -1)

    def __iter__(self) -> "SharedIterator":
        return self

    def __next__(self) -> Any:
        if self._pass is not None and self._pass.leaves_out():
            return None
        try:
            data = self._fetched()
        except StopIteration:
            loops().exhausted(self._loop)
            position().end_pass(self._pass)
            raise
        finally:
            leave_own_stream()
        loader = self._loader
        if loader.ddpify_sampler is not None:
            self._parts = loader.ddpify_sampler.take(self._parts)
            self._loop.share = self._parts.shares.popleft()
        elif loader.ddpify_in_batch:
            share, data = data
            self._loop.share = Share(*share)
        if not loader.ddpify_aside:
            loops().yielded(self._loop)
        frame = sys._getframe(1)
        self._asked_from = frame.f_code, frame.f_lasti
        return data

    def _fetched(self) -> Any:
        if self._pass is not None and self._loader.ddpify_sampler is None:
            for _ in range(self._pass.unread()):
                next(self._inner)
        return next(self._inner)

    def __len__(self) -> int:
        return len(self._inner)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name == "_inner":
            raise AttributeError(name)
        return getattr(self._inner, name)

    def __del__(self) -> None:
        if sys.is_finalizing() or "_loop" not in self.__dict__:
            return
        # `next(iter(loader))` drops the iterator in the very instruction that asks it for a
        # batch, and goes on to work with that; a loop left by `break` does so in another, when
        # its batch has been used.
        position().end_pass(self.__dict__.get("_pass"))
        frame = sys._getframe(1)
        loops().dropped(self._loop, keep=self._asked_from == (frame.f_code, frame.f_lasti))


class SharedLoader(DataLoader[Any]):
    """Mixed in before a loader's class by shard() and replicate()."""

    ddpify_sampler: PartSampler | None
    ddpify_in_batch: bool
    ddpify_aside = False

    def __iter__(self) -> Any:
        """As the loader's own, from rank 0's random states. A collective."""
        generators = _generators(self)
        if world_size() > 1:
            broadcast_random_state(generators)
        here = position()
        under_way = here.begin_pass(_length(self))
        if under_way is not None:
            under_way.make(generators)
        fork_own_stream(world().rank)
        here.opening = under_way
        try:
            return SharedIterator(self, super().__iter__(), under_way)
        finally:
            here.opening = None

    def __len__(self) -> int:
        """Batches in an epoch: of those that make one global batch, one is counted."""
        length = super().__len__()
        if isinstance(self.dataset, IterableDataset) and isinstance(
            self.batch_sampler, JoinedBatches
        ):
            return self.batch_sampler.joined(length)
        return length

    @property
    def _index_sampler(self) -> Any:
        if self.ddpify_sampler is None:
            return super()._index_sampler
        return self.ddpify_sampler


def shard(
    loader: AnyLoader,
    *,
    sampler: str = "exact",
    batch: str = "global",
    padding: str = "own",
    dim: int | Sequence[int] = 0,
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

    ``padding="global"`` lets every rank fetch whole batches and put them together, so that what
    the collate function pads is as long as in one process, and then keep its rows: along ``dim``,
    which may be one for each tensor of a tuple.

    Raises TypeError for what is not a torch DataLoader, or one over a DataPipe, for a sampler
    that DistributedSampler cannot take the place of, and with ``batch="per-rank"`` for one that
    does not put batches together itself.
    """
    if sampler not in ("exact", "distributed"):
        raise ValueError(f"sampler is 'exact' or 'distributed', not {sampler!r}")
    if batch not in ("global", "per-rank"):
        raise ValueError(f"batch is 'global' or 'per-rank', not {batch!r}")
    if padding not in ("own", "global"):
        raise ValueError(f"padding is 'own' or 'global', not {padding!r}")
    shared = _shared(loader)
    if not isinstance(shared, SharedLoader) or shared is loader:
        return loader
    if batch == "per-rank":
        _join_batches(shared)
    if padding == "global" and sampler == "exact" and shared.batch_sampler is not None:
        _share_rows(shared, dim)
    elif isinstance(shared.dataset, IterableDataset):
        _share_samples(shared)
    else:
        _share_indices(shared)
        if sampler == "distributed" and world_size() > 1 and shared.ddpify_sampler is not None:
            shared.ddpify_sampler.whole = DistributedBatches(loader, world_size(), batch)
    return shared


def _join_batches(shared: SharedLoader) -> None:
    """Let a global batch be as many of the loader's own as there are ranks."""
    if shared.batch_sampler is None:
        raise TypeError("batch='per-rank' needs a loader that makes batches: give it a batch_size")
    joined = JoinedBatches(shared.batch_sampler, world_size(), drop_last=shared.drop_last)
    shared.__dict__["batch_sampler"] = joined
    report_batch(shared.batch_size)


class RepeatedBatches:
    """The batches of one pass, and then those again and again, each with its own share."""

    def __init__(self, loader: Iterable[Any]) -> None:
        self.batches = iter(loader)
        self.kept: list[tuple[Share | None, Any]] = []
        self.again: Iterator[tuple[Share | None, Any]] | None = None

    def __iter__(self) -> "RepeatedBatches":
        return self

    def __next__(self) -> Any:
        if self.again is None:
            try:
                batch = next(self.batches)
            except StopIteration:
                self.again = itertools.cycle(self.kept)
            else:
                self.kept.append((current_share(), batch))
                return batch
        share, batch = next(self.again)
        loops().repeated(share)
        return batch


def cycle(loader: Iterable[Any]) -> Iterator[Any]:
    """As ``itertools.cycle(loader)``: its batches again and again, each shared as it was at first.

    Keeps the batches of its first pass, as that does.
    """
    return RepeatedBatches(loader) if world_size() > 1 else itertools.cycle(loader)


def replicate(loader: AnyLoader, *, aside: bool = False) -> AnyLoader:
    """A loader that yields every batch of ``loader`` whole, on every rank.

    A plain ``python`` run gets ``loader`` itself. Each iter() is a collective. With ``aside`` its
    batches leave the batch at hand the one that it is: they are taken in the middle of a step.
    """
    shared = _shared(loader)
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
        generators=_generators(shared),
    )
    if batched and world_size() > 1:
        # Else single samples may turn out to be replicated, to be read alike on all ranks.
        shared.worker_init_fn = WorkerSeed(shared.worker_init_fn, world().rank)


def _share_samples(shared: SharedLoader) -> None:
    if shared.batch_size is None:
        _warn_once("an iterable data set with batch_size=None: every rank takes all of it")
        return
    place = world()
    if place.size == 1:
        return
    _warn_once(
        f"an iterable data set is read whole by each of the {place.size} ranks, which keeps "
        "its part of every batch: reading and decoding take as long as on one"
    )
    shared.collate_fn = PartCollate(shared.collate_fn, place.rank, place.size)
    shared.__dict__["ddpify_in_batch"] = True


def _share_rows(shared: SharedLoader, dim: int | Sequence[int]) -> None:
    place = world()
    if place.size > 1:
        shared.collate_fn = WholeCollate(shared.collate_fn, place.rank, place.size, dim)
        shared.__dict__["ddpify_in_batch"] = True


@functools.cache
def _shared_class(plain: Any) -> Any:
    return subclass_of(plain, SharedLoader)


def _generators(loader: DataLoader[Any]) -> list[torch.Generator]:
    """The generators that the loader and its samplers were given, each once."""
    sampler, batches = loader.sampler, loader.batch_sampler
    holders = (loader, sampler, batches, getattr(batches, "sampler", None))
    found = [getattr(holder, "generator", None) for holder in holders]
    return list({id(g): g for g in found if isinstance(g, torch.Generator)}.values())


def _draws_nothing(loader: DataLoader[Any]) -> bool:
    """Whether a fetch is known to draw no random numbers: rows of tensors, put together."""
    data: Any = loader.dataset
    while type(data) is Subset:
        data = data.dataset
    return type(data) is TensorDataset and loader.collate_fn is default_collate


def _length(loader: DataLoader[Any]) -> int | None:
    """The batches of an epoch; None where only the end of one tells."""
    try:
        return len(loader)
    except TypeError:
        return None


def _is_batch(index: Any) -> bool:
    """Whether a sampler's item is a batch of indices: a list, or a 1-D tensor or array."""
    return isinstance(index, list) or getattr(index, "ndim", 0) == 1


@functools.cache
def _warn_once(text: str) -> None:
    if world().rank == 0:
        warnings.warn(text, stacklevel=4)
