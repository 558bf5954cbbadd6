"""The order of PyTorch's DistributedSampler, as global batches that are split like any other."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, SequentialSampler

from ddpify.runtime.indices import Batch, permutation


class DistributedBatches:
    """Global batches whose part of each rank is what its DistributedSampler would give it.

    Each rank takes ``batch_size // W`` samples a step (``batch_size`` with per-rank batches), of an
    equal number for all ranks: indices are repeated to make it so, or left out with ``drop_last``,
    as DistributedSampler does. Each iteration is the next epoch (``set_epoch``).
    """

    def __init__(self, loader: DataLoader[Any], size: int, batch: str = "global") -> None:
        shuffle = isinstance(loader.sampler, RandomSampler)
        if loader.batch_size is None or type(loader.sampler) not in (
            RandomSampler,
            SequentialSampler,
        ):
            raise TypeError(
                "sampler='distributed' takes the place of a plain or shuffled order only, not of "
                f"a {type(loader.sampler).__name__}"
            )
        self.sampler: DistributedSampler[Any] = DistributedSampler(
            loader.dataset, size, 0, shuffle=shuffle, drop_last=loader.drop_last
        )
        own = loader.batch_size if batch == "per-rank" else loader.batch_size // size
        self.each = max(own, 1)
        self.drop_last = loader.drop_last

    def __iter__(self) -> Iterator[Batch]:
        order = self._order()
        self.sampler.set_epoch(self.sampler.epoch + 1)
        # Rank r of W takes every W-th index from the r-th on: column r of these rows.
        rows = order.view(-1, self.sampler.num_replicas)
        for step in range(len(self)):
            part = rows[step * self.each : (step + 1) * self.each]
            yield Batch(part.t().reshape(-1))

    def _order(self) -> torch.Tensor:
        """All ranks' indices of this epoch, interleaved: ``total_size`` of them."""
        sampler = self.sampler
        count = len(sampler.dataset)  # type: ignore[arg-type]
        if sampler.shuffle:
            generator = torch.Generator()
            generator.manual_seed(sampler.seed + sampler.epoch)
            order = permutation(count, generator)
        else:
            order = torch.arange(count, dtype=torch.int64)
        if sampler.total_size <= count:
            return order[: sampler.total_size]
        times, rest = divmod(sampler.total_size, count)
        return torch.cat([order.repeat(times), order[:rest]])

    def __len__(self) -> int:
        whole, rest = divmod(self.sampler.num_samples, self.each)
        return whole + (1 if rest and not self.drop_last else 0)


class ListedBatches:
    """The same batches for a loader that fetches whole ones: as lists."""

    def __init__(self, batches: DistributedBatches) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[list[int]]:
        return (batch[:] for batch in self.batches)

    def __len__(self) -> int:
        return len(self.batches)
