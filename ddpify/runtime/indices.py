"""Global batches of indices from torch's own samplers, without a Python list of all samples.

A RandomSampler makes a list of a whole epoch's indices, some 36 bytes for each, and a BatchSampler
one of each global batch. These draw the same numbers at the same moments, and hold an epoch as one
tensor, of which a rank makes a list of its own part alone.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler


class Batch:
    """The indices of one global batch; a slice of it is a list."""

    __slots__ = ("indices",)

    def __init__(self, indices: torch.Tensor | range) -> None:
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, part: slice) -> list[int]:
        own = self.indices[part]
        return own.tolist() if isinstance(own, torch.Tensor) else list(own)


class CompactBatches:
    """What a BatchSampler yields, over a SequentialSampler or a RandomSampler."""

    def __init__(self, whole: BatchSampler) -> None:
        self.whole = whole

    def __len__(self) -> int:
        return len(self.whole)

    def __iter__(self) -> Iterator[Batch]:
        size = self.whole.batch_size
        left: Any = ()
        for order in _orders(self.whole.sampler):
            indices = torch.cat([left, order]) if len(left) else order
            full = len(indices) - len(indices) % size
            for first in range(0, full, size):
                yield Batch(indices[first : first + size])
            left = indices[full:]
        if len(left) and not self.whole.drop_last:
            yield Batch(left)


def compact(sampler: Any) -> Any:
    """``sampler``, or the same batches in less memory where they are known to be the same."""
    if type(sampler) is not BatchSampler:
        return sampler
    order = sampler.sampler
    shuffled = type(order) is RandomSampler and not order.replacement
    return CompactBatches(sampler) if shuffled or type(order) is SequentialSampler else sampler


def permutation(count: int, generator: torch.Generator) -> torch.Tensor:
    """``torch.randperm(count)``, the same numbers from the same draws, as narrow as they fit."""
    dtype = torch.int32 if count <= torch.iinfo(torch.int32).max else torch.int64
    return torch.randperm(count, generator=generator, dtype=dtype)


def _orders(sampler: Any) -> Iterator[Any]:
    """A sampler's indices in a few long pieces, each drawn when its first index is needed."""
    count = len(sampler.data_source)
    if isinstance(sampler, SequentialSampler):
        yield range(count)
        return
    generator = sampler.generator
    if generator is None:
        seed = int(torch.empty((), dtype=torch.int64).random_().item())
        generator = torch.Generator()
        generator.manual_seed(seed)
    whole, rest = divmod(sampler.num_samples, count)
    for _ in range(whole):
        yield permutation(count, generator)
    if rest or sampler.generator is not None:
        # RandomSampler draws it where it needs none of it, too, which a generator of the script's
        # own goes on from.
        yield permutation(count, generator)[:rest]
