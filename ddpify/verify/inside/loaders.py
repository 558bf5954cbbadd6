"""What each loader yields: the samples' indices and contents, batch by batch; and the way back,
a loader that yields the batches of another run."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
)
from torch.utils.data import dataloader as loaders

from ddpify.verify.inside import streams
from ddpify.verify.inside.fingerprint import row
from ddpify.verify.inside.patching import replace
from ddpify.verify.inside.place import PLACE
from ddpify.verify.inside.replay import Replay

MAX_BATCHES = 50_000
_NUMBER = "_ddpify_verify_number"
_TAKING_ALL = (DistributedSampler, RandomSampler, SequentialSampler)


class Loaders:
    """Watches the loaders of one process.

    A loader is known by its number in order of construction, which a shallow copy of it shares.

    Args:
        emit: Takes each event: a kind and its values.
        replay: The batches to yield instead of the loaders' own.
        caller: Tells the script's line that is running.

    Attributes:
        yielded: Takes each batch, and one number for its content.
        begun: Takes each loader whose pass begins, its number and that of the pass.
        ended: Takes the numbers of the loader and the pass of each batch.
    """

    def __init__(
        self, emit: Callable[..., None], replay: Replay | None, caller: Callable[[], str]
    ) -> None:
        self._emit, self._replay, self._caller = emit, replay, caller
        self._constructed = 0
        self._passes: dict[int, int] = {}
        self._batches = 0
        self._ids: list[Any] = []
        self._marks: list[float] = []
        self._latest: int | None = None
        self._trains: set[int] = set()
        self.yielded: Callable[[Any, float], None] = lambda found, content: None
        self.begun: Callable[[Any, int, int], None] = lambda loader, number, turn: None
        self.ended: Callable[[int, int], None] = lambda number, turn: None

    def install(self) -> None:
        """Hook the construction of loaders, their iterators and the fetch of samples."""
        PLACE.watch = self._fetched
        streams.install(content, self._fetched)
        self._number_loaders()
        self._watch_iterators(loaders._BaseDataLoaderIter)

    def _watch_iterators(self, base: Any) -> None:
        begin, advance, sample = base.__init__, base.__next__, base._next_index

        def construct(iterator: Any, loader: Any) -> None:
            iterator.ddpify_place = self._begin(loader)
            begin(iterator, loader)

        def following(iterator: Any) -> Any:
            self._ids, self._marks = [], []
            try:
                found = advance(iterator)
            except StopIteration:
                self._end_pass(iterator)
                raise
            self._yielded(iterator)
            self.yielded(found, sum(self._marks))
            self.ended(*iterator.ddpify_place)
            return found

        def next_index(iterator: Any) -> Any:
            number, turn = iterator.ddpify_place
            if self._replay and self._replay.knows(number, turn):
                return self._replay.next_batch(number, turn, iterator._auto_collation)
            return sample(iterator)

        replace(base, "__init__", construct)
        replace(base, "__next__", following)
        replace(base, "_next_index", next_index)

    def _number_loaders(self) -> None:
        init, length = DataLoader.__init__, DataLoader.__len__

        @functools.wraps(init)  # some libraries make a loader anew from its signature
        def construct(loader: Any, *args: Any, **kwargs: Any) -> None:
            init(loader, *args, **kwargs)
            loader.__dict__[_NUMBER] = self._constructed
            self._emit(
                "loader",
                loader=self._constructed,
                sampler=type(getattr(loader, "sampler", None)).__name__,
                replacement=bool(getattr(getattr(loader, "sampler", None), "replacement", False)),
                selects=_selects(loader),
                length=_length(getattr(loader, "dataset", None)),
                at=self._caller(),
            )
            self._constructed += 1

        def batches(loader: Any) -> int:
            number = loader.__dict__.get(_NUMBER, -1)
            known = self._replay and self._replay.length(number)
            return known or length(loader)

        replace(DataLoader, "__init__", construct)
        replace(DataLoader, "__len__", batches)

    def trained(self) -> None:
        """The batch that was yielded last is trained on."""
        if self._latest is not None and self._latest not in self._trains:
            self._trains.add(self._latest)
            self._emit("trains", loader=self._latest)

    def _begin(self, loader: Any) -> tuple[int, int]:
        number = loader.__dict__.get(_NUMBER, -1)
        place = (number, self._passes.get(number, 0))
        self._passes[number] = place[1] + 1
        self.begun(loader, *place)
        return place

    def _fetched(self, index: Any, item: Any) -> None:
        self._ids.append(index)
        self._marks.append(content(item))

    def _yielded(self, iterator: Any) -> None:
        number, turn = iterator.ddpify_place
        self._latest = number
        self._batches += 1
        if self._batches > MAX_BATCHES or not self._ids:
            return
        roots = _roots(iterator._dataset, self._ids)
        self._emit(
            "batch",
            loader=number,
            turn=turn,
            ids=[_plain(index) for index in self._ids],
            roots=roots,
            marks=self._marks,
            single=not iterator._auto_collation,
            stream=isinstance(iterator._dataset, IterableDataset),
        )

    def _end_pass(self, iterator: Any) -> None:
        number, turn = iterator.ddpify_place
        if self._batches <= MAX_BATCHES:
            self._emit("pass", loader=number, turn=turn)


def _selects(loader: Any) -> bool:
    """Whether a sampler may leave out samples on purpose: one of a subset, or the script's own."""
    own = type(getattr(loader, "batch_sampler", None)) not in (type(None), BatchSampler)
    return own or not isinstance(getattr(loader, "sampler", None), _TAKING_ALL)


def _length(dataset: Any) -> int | None:
    """The number of samples; None where it is not known."""
    if isinstance(dataset, IterableDataset):
        return None
    try:
        return len(dataset)
    except TypeError:
        return None


def content(item: Any) -> float:
    """One number for a sample: equal for equal samples, whatever they are made of."""
    total = 0.0
    for at, leaf in enumerate(_leaves(item), 1):
        total += at * _leaf(leaf)
    return total


def _leaves(item: Any) -> list[Any]:
    if isinstance(item, Mapping):
        return [leaf for key in item for leaf in _leaves(item[key])]
    if isinstance(item, (list, tuple)):
        return [leaf for part in item for leaf in _leaves(part)]
    return [item]


def _leaf(value: Any) -> float:
    if isinstance(value, torch.Tensor):
        return row(value)
    if type(value).__module__ == "numpy" and hasattr(value, "dtype"):
        return row(torch.as_tensor(value)) if value.dtype.kind in "iufb" else 0.0
    if isinstance(value, (bool, int, float)):
        return float(value)
    if isinstance(value, (str, bytes)):
        return float(zlib.crc32(value.encode() if isinstance(value, str) else value))
    return 0.0


def _plain(index: Any) -> Any:
    """An index as JSON can hold it; what is not an integer becomes text."""
    if hasattr(index, "item") and getattr(index, "ndim", 1) == 0:
        index = index.item()
    return index if isinstance(index, (int, str)) else repr(index)


def _roots(dataset: Any, ids: list[Any]) -> list[Any] | None:
    """Indices into the data set under a chain of subsets; None where there is no subset."""
    if not isinstance(dataset, Subset):
        return None
    found = [_plain(index) for index in ids]
    while isinstance(dataset, Subset):
        if not all(isinstance(index, int) for index in found):
            return None
        found = [_plain(dataset.indices[index]) for index in found]
        dataset = dataset.dataset
    return found
