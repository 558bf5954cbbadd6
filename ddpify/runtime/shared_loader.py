"""The class of a loader whose batches the ranks share, and its iterator."""

import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from ddpify.runtime.joined import JoinedBatches
from ddpify.runtime.parts import PartCollate, Parts, PartSampler
from ddpify.runtime.position import Pass, position
from ddpify.runtime.process import world, world_size
from ddpify.runtime.rng import broadcast_random_state, fork_own_stream, leave_own_stream
from ddpify.runtime.share import Loop, Share, loops
from ddpify.runtime.worker_seeds import WorkerSeed


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
            if loader.ddpify_seeds and self._parts.drawn_apart:
                loader.dataset[self._parts.last[0]]
        elif loader.ddpify_in_batch:
            share, data = data
            self._loop.share = Share(*share)
        if loader.ddpify_joined:
            _check_all_have_some(self._loop.share)
        if not loader.ddpify_aside:
            loops().yielded(self._loop)
        loader.__dict__["ddpify_latest"] = self._loop
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
    ddpify_joined = False
    ddpify_seeds = False
    ddpify_latest: Loop | None = None  # the pass that yielded last

    def __setattr__(self, name: str, given: Any) -> None:
        """What the script sets afterwards is wrapped as what it takes the place of."""
        wrapper = self.__dict__.get(name)
        if isinstance(wrapper, PartCollate | WorkerSeed) and not isinstance(given, type(wrapper)):
            given = wrapper.around(given)
        super().__setattr__(name, given)

    def __iter__(self) -> Any:
        """As the loader's own, from rank 0's random states. A collective."""
        generators = generators_of(self)
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


def _check_all_have_some(share: Share | None) -> None:
    if share is not None and share.total < world_size():
        raise RuntimeError(
            f"a batch of {share.total} samples, to be joined with another loader's, leaves some of"
            f" the {world_size()} ranks without any: give the loader drop_last=True"
        )


def generators_of(loader: DataLoader[Any]) -> list[torch.Generator]:
    """The generators that the loader and its samplers were given, each once."""
    sampler, batches = loader.sampler, loader.batch_sampler
    holders = (loader, sampler, batches, getattr(batches, "sampler", None))
    found = [getattr(holder, "generator", None) for holder in holders]
    return list({id(g): g for g in found if isinstance(g, torch.Generator)}.values())


def _length(loader: DataLoader[Any]) -> int | None:
    """The batches of an epoch; None where only the end of one tells."""
    try:
        return len(loader)
    except TypeError:
        return None
