"""The order of PyTorch's DistributedSampler, as global batches that are split like any other."""

from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, SequentialSampler


class DistributedBatches:
    """Global batches whose part of each rank is what its DistributedSampler would give it.

    Each rank takes ``batch_size // W`` samples a step, of an equal number for all ranks: indices
    are repeated to make it so, or left out with ``drop_last``, as DistributedSampler does. Each
    iteration is the next epoch (``set_epoch``).
    """

    def __init__(self, loader: DataLoader[Any], size: int) -> None:
        shuffle = isinstance(loader.sampler, RandomSampler)
        if loader.batch_size is None or type(loader.sampler) not in (
            RandomSampler,
            SequentialSampler,
        ):
            raise TypeError(
                "sampler='distributed' takes the place of a plain or shuffled order only, not of "
                f"a {type(loader.sampler).__name__}"
            )
        self.samplers: list[DistributedSampler[Any]] = [
            DistributedSampler(
                loader.dataset, size, rank, shuffle=shuffle, drop_last=loader.drop_last
            )
            for rank in range(size)
        ]
        self.each = max(loader.batch_size // size, 1)
        self.drop_last = loader.drop_last
        self.epoch = 0

    def __iter__(self) -> Iterator[list[int]]:
        for sampler in self.samplers:
            sampler.set_epoch(self.epoch)
        self.epoch += 1
        orders = [list(sampler) for sampler in self.samplers]
        for step in range(len(self)):
            part = slice(step * self.each, (step + 1) * self.each)
            yield [index for order in orders for index in order[part]]

    def __len__(self) -> int:
        whole, rest = divmod(len(self.samplers[0]), self.each)
        return whole + (1 if rest and not self.drop_last else 0)
