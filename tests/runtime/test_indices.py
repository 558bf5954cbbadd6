"""Compact orders are those of torch's samplers, index for index and draw for draw."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    WeightedRandomSampler,
)

from ddpify.runtime.indices import CompactBatches, compact
from ddpify.runtime.rng import enter_own_stream, leave_own_stream

SAMPLES = range(23)


def samplers(generator: torch.Generator) -> dict[str, Any]:
    return {
        "sequential": SequentialSampler(SAMPLES),
        "shuffled": RandomSampler(SAMPLES),
        "own generator": RandomSampler(SAMPLES, generator=generator),
        "fewer": RandomSampler(SAMPLES, num_samples=10, generator=generator),
        "several times": RandomSampler(SAMPLES, num_samples=3 * 23 + 4, generator=generator),
    }


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("size", [1, 5, 23, 40])
@pytest.mark.parametrize("kind", list(samplers(torch.Generator())))
def test_the_same_batches_and_draws(kind: str, size: int, drop_last: bool) -> None:
    seen = []
    makers: list[Callable[[Any], Any]] = [lambda sampler: sampler, compact]
    for make in makers:
        torch.manual_seed(5)
        generator = torch.Generator().manual_seed(6)
        batches = make(BatchSampler(samplers(generator)[kind], size, drop_last))
        trace: list[Any] = [len(batches)]
        for _ in range(2):
            for batch in batches:
                # What is drawn between two batches, as by an augmentation, must be the same too.
                trace.append((batch[: len(batch)], torch.rand(1, generator=generator).item()))
        seen.append([*trace, torch.rand(1).item(), torch.rand(1, generator=generator).item()])
    assert seen[0] == seen[1]
    assert isinstance(batches, CompactBatches)


def test_other_samplers_stay() -> None:
    class Own(BatchSampler):
        pass

    weighted = WeightedRandomSampler([1.0] * 23, 23)
    for sampler in (
        BatchSampler(weighted, 4, False),
        BatchSampler(RandomSampler(SAMPLES, replacement=True), 4, False),
        Own(RandomSampler(SAMPLES), 4, False),
        [[1, 2], [3]],
    ):
        assert compact(sampler) is sampler


def test_the_shared_numpy_stream_goes_on() -> None:
    """Whatever is drawn from either stream, also normal numbers, of which NumPy makes two."""
    numpy = pytest.importorskip("numpy")
    choices = random.Random(1)
    numpy.random.seed(3)
    alone = numpy.random.RandomState(3)
    for turn in range(300):
        enter_own_stream()
        for _ in range(choices.choice([0, 0, 1, 2])):
            numpy.random.randn()
        leave_own_stream()
        for _ in range(choices.choice([0, 0, 1, 2])):
            name = choices.choice(["randn", "rand"])
            assert getattr(numpy.random, name)() == getattr(alone, name)()
        if turn == 100:
            numpy.random.seed(4)
            alone.seed(4)
