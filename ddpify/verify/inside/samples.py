"""A sample's augmentation is drawn from a seed of its index, whoever fetches it."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterable
from typing import Any

from torch.utils.data import DataLoader
from torch.utils.data import dataloader as loaders
from torch.utils.data._utils import fetch as fetchers

from ddpify.verify.inside.patching import faked, replace
from ddpify.verify.inside.place import PLACE, kept_states, seed_all
from ddpify.verify.inside.randomness import states

WORKERS = "_ddpify_verify_workers"
"""Attribute of a loader: whether the script gives it workers."""


def install() -> None:
    """Loaders without workers, whose samples are seeded by their index."""
    init = DataLoader.__init__

    @functools.wraps(init)
    def without_workers(self: Any, dataset: Any, *args: Any, **kwargs: Any) -> None:
        workers = bool(args[4] if len(args) > 4 else kwargs.get("num_workers"))
        if len(args) > 4:
            args = (*args[:4], 0, *args[5:7])
        elif kwargs.get("num_workers"):
            faked["DataLoader(num_workers=0)"] += 1
        for name in ("num_workers", "prefetch_factor", "multiprocessing_context", "timeout",
                     "persistent_workers", "pin_memory", "pin_memory_device"):  # fmt: skip
            kwargs.pop(name, None)
        init(self, dataset, *args, **kwargs)
        self.__dict__[WORKERS] = workers

    replace(DataLoader, "__init__", without_workers)
    replace(fetchers._MapDatasetFetcher, "fetch", _fetch)
    _follow_loaders()


def watch() -> None:
    """Tell of each sample that a loader without workers fetches, and change nothing."""
    fetch = fetchers._MapDatasetFetcher.fetch

    def watched(self: Any, index: Any) -> Any:
        self.dataset = _Told(self.dataset) if not isinstance(self.dataset, _Told) else self.dataset
        return fetch(self, index)  # type: ignore[no-untyped-call]

    replace(fetchers._MapDatasetFetcher, "fetch", watched)


class _Told:
    """A data set whose samples are told of; it fetches one at a time."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __getitem__(self, index: Any) -> Any:
        item = self._dataset[index]
        PLACE.watch(index, item)
        return item


def _follow_loaders() -> None:
    """Know where the loop is by the batches that loaders yield: by the pass over a loader, and the
    batch in it. Passes over other loaders, as one rank alone may make them, do not count.
    """
    iterate = DataLoader.__iter__
    base: Any = loaders._BaseDataLoaderIter
    advance, sample = base.__next__, base._next_index

    def begin(self: Any) -> Any:
        PLACE.looping = True
        return iterate(self)

    def following(self: Any) -> Any:
        self.ddpify_batch = getattr(self, "ddpify_batch", 0) + 1
        _, turn = getattr(self, "ddpify_place", (0, 0))
        PLACE.batch, PLACE.draw = (turn, self.ddpify_batch), 0
        return advance(self)

    def sampling(self: Any) -> Any:
        with PLACE.drawing():
            return sample(self)

    replace(DataLoader, "__iter__", begin)
    replace(base, "__next__", following)
    replace(base, "_next_index", sampling)


def _fetch(self: Any, index: Any) -> Any:
    if not self.auto_collation:
        return self.collate_fn(_seeded_items(self.dataset, [index])[0])
    PLACE.samples = len(index)
    return self.collate_fn(_seeded_items(self.dataset, index))


def _seeded_items(dataset: Any, indices: Iterable[Any]) -> list[Any]:
    """The samples at ``indices``; the global generators are as before then."""
    if PLACE.drawn is not None and PLACE.before is None:
        PLACE.before = states()
    with kept_states(), PLACE.drawing():
        return [_seeded_item(dataset, index) for index in indices]


def _seeded_item(dataset: Any, index: Any) -> Any:
    at = index.tolist() if hasattr(index, "tolist") else index
    seed_all(zlib.crc32(repr(at).encode()))
    drawn = PLACE.drawn
    before = states() if drawn is not None else {}
    item = dataset[index]
    if drawn is not None:
        now = states()
        drawn |= {name for name in before if before[name] != now[name]}
    PLACE.watch(index, item)
    return item
