"""This rank's part of each global batch: of a sampler's indices, or of a data set's samples."""

import copy
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ddpify.runtime.batch import (
    Dimensions,
    check_that_all_has_rows,
    has_own,
    number_of_rows,
    rows_of,
    with_own,
)
from ddpify.runtime.indices import Batch
from ddpify.runtime.position import position
from ddpify.runtime.process import warn_once, world
from ddpify.runtime.rng import enter_own_stream, undrawn
from ddpify.runtime.share import Share, bounds, share_of


class Parts:
    """One pass over a sampler's global batches: yields this rank's indices, notes each share."""

    def __init__(self, sampler: "PartSampler", batches: Iterator[Any]) -> None:
        self.sampler = sampler
        self.batches = batches
        self.shares: deque[Share | None] = deque()
        self.under_way = position().opening
        self.last: Any = None  # of the latest global batch, its last index alone
        self.drawn_apart = False  # whether that batch was fetched in this rank's own stream

    def __iter__(self) -> "Parts":
        return self

    def __next__(self) -> Any:
        sampler = self.sampler
        sampler.latest = self
        batch = self._next_batch()
        if not sampler.batched and not _is_batch(batch):
            warn_once(
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
            # A data set gets the list that torch's own sampler would give it.
            return batch[:] if isinstance(batch, Batch) else batch
        if sampler.draws_here:
            # What follows, in this process, is the fetch of this rank's own samples.
            enter_own_stream()
            self.last, self.drawn_apart = batch[-1:], True
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


def _is_batch(index: Any) -> bool:
    """Whether a sampler's item is a batch of indices: a list, or a 1-D tensor or array."""
    return isinstance(index, list) or getattr(index, "ndim", 0) == 1


class PartCollate:
    """A collate_fn that keeps this rank's part of a global batch, and says how it is shared."""

    def __init__(self, collate: Callable[[Any], Any], rank: int, size: int) -> None:
        self.collate = collate
        self.rank = rank
        self.size = size

    def around(self, collate: Callable[[Any], Any]) -> "PartCollate":
        """The same for another function."""
        made = copy.copy(self)
        made.collate = collate
        return made

    def __call__(self, samples: list[Any]) -> tuple[tuple[int, int, int], Any]:
        """A global batch's samples -> the fields of its Share, and this rank's part collated."""
        share = share_of(len(samples), self.rank, self.size)
        assert share is not None, "a fetcher collates no empty batch"
        first, last = bounds(len(samples), self.rank, self.size)
        own = samples[:1] if share.ghost else samples[first:last]
        return (share.local, share.total, share.rows), self.collate(own)


class GlobalCollate(PartCollate):
    """A collate_fn that puts a whole global batch together, and keeps this rank's rows of it."""

    def __init__(
        self,
        collate: Callable[[Any], Any],
        rank: int,
        size: int,
        dim: Dimensions,
        *,
        every: bool = False,
    ) -> None:
        super().__init__(collate, rank, size)
        self.dim = dim
        self.every = every  # each tensor must have a row for each sample

    def __call__(self, samples: list[Any]) -> tuple[tuple[int, int, int], Any]:
        """A global batch's samples -> the fields of its Share, and this rank's rows."""
        batch = self.collate(samples)
        if self.every:
            check_that_all_has_rows(batch, len(samples))
        total = self._kept(batch, len(samples))
        share = share_of(total, self.rank, self.size)
        assert share is not None, "a fetcher collates no empty batch"
        first, last = (0, 1) if share.ghost else bounds(total, self.rank, self.size)
        rows = rows_of(batch, self.dim, total, first, last)
        if has_own(self.dim):
            if total != len(samples):
                raise ValueError(
                    f"{total} rows of {len(samples)} samples: it is not known of which"
                )
            with undrawn():
                rows = with_own(rows, self.collate(samples[first:last]), self.dim)
        return (share.local, share.total, share.rows), rows

    def _kept(self, batch: Any, total: int) -> int:
        """How many of so many samples the collate function has not left out."""
        found = None if self.every else number_of_rows(batch, self.dim)
        return found if found is not None and 0 < found < total else total
