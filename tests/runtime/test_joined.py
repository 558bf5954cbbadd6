"""Batches of each rank's own, and learning rates that grow with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    TensorDataset,
)

from ddpify import runtime as dd
from tests.runtime.ranks import run

N, BATCH = 23, 4  # the last batch has 3 samples


def _numbers(*, drop_last: bool = False, shuffle: bool = False) -> DataLoader[Any]:
    generator = torch.Generator().manual_seed(5)
    data = TensorDataset(torch.arange(N))
    if shuffle:
        batches = BatchSampler(RandomSampler(data, generator=generator), BATCH, drop_last)
        return DataLoader(data, batch_sampler=batches)
    return DataLoader(data, batch_size=BATCH, drop_last=drop_last)


@pytest.mark.parametrize("shuffle", [False, True])
def test_consecutive_batches_make_a_global_one(shuffle: bool) -> None:
    own = [batch.tolist() for (batch,) in _numbers(shuffle=shuffle)]

    def job() -> tuple[int, list[list[int]]]:
        dd.init()
        loader = dd.shard(_numbers(shuffle=shuffle), batch="per-rank")
        return len(loader), [batch.tolist() for (batch,) in loader]

    lengths, parts = zip(*run(job, 2), strict=True)
    assert lengths == (3, 3)
    # Of 4 + 3 samples at the end, rank 0 takes one more.
    assert [[*a, *b] for a, b in zip(*parts, strict=True)] == [
        own[0] + own[1],
        own[2] + own[3],
        own[4] + own[5],
    ]
    assert [len(batch) for batch in parts[1]] == [4, 4, 3]


def test_an_incomplete_global_batch_is_dropped_with_the_last() -> None:
    def job() -> list[int]:
        dd.init()
        loader = dd.shard(_numbers(drop_last=True), batch="per-rank")
        assert len(loader) == 1
        return [len(batch) for (batch,) in loader]

    assert run(job, 3) == [[4]] * 3


class Stream(IterableDataset[torch.Tensor]):
    """Samples in an order of their own."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(torch.arange(N))

    def __len__(self) -> int:
        return N


@pytest.mark.parametrize("workers", [0, 1])
def test_consecutive_batches_of_a_stream_make_a_global_one(workers: int) -> None:
    def job() -> list[list[int]]:
        dd.init()
        loader = DataLoader(Stream(), batch_size=BATCH, num_workers=workers)
        joined = dd.shard(loader, batch="per-rank")
        assert len(joined) == 3
        return [batch.tolist() for batch in joined]

    first, second = run(job, 2)
    assert [[*a, *b] for a, b in zip(first, second, strict=True)] == [
        [*range(8)],
        [*range(8, 16)],
        [*range(16, N)],
    ]
    assert [len(part) for part in second] == [4, 4, 3]


def test_one_process_trains_as_before() -> None:
    loader = _numbers()
    assert dd.shard(loader, batch="per-rank") is loader
    net = nn.Linear(1, 1)
    rule = torch.optim.SGD(net.parameters(), lr=0.5)
    assert dd.scale_lr(rule, "linear") is rule
    net(torch.ones(1)).sum().backward()
    before = net.bias.detach().clone()
    rule.step()
    assert torch.equal(net.bias, before - 0.5)


@pytest.mark.parametrize(("rule", "factor"), [("linear", 2.0), ("sqrt", 2.0**0.5)])
def test_steps_alone_take_the_scaled_learning_rates(rule: str, factor: float) -> None:
    def job() -> tuple[list[float], list[float], str]:
        dd.init()
        weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))
        plain = torch.optim.SGD([{"params": [weight], "lr": 0.5}], lr=0.1)
        optimizer = dd.scale_lr(plain, rule)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.1)
        seen, moved = [], []
        for _ in range(2):
            before = weight.item()
            weight.grad = torch.ones_like(weight)
            optimizer.step()
            moved.append(before - weight.item())
            seen.append(optimizer.param_groups[0]["lr"])
            schedule.step()
        return seen, moved, type(optimizer).__name__

    for seen, moved, name in run(job, 2):
        assert seen == pytest.approx([0.5, 0.05])
        assert moved == pytest.approx([0.5 * factor, 0.05 * factor])
        assert name == "SGD"


def test_other_words_are_refused() -> None:
    with pytest.raises(ValueError, match="per-rank"):
        dd.shard(_numbers(), batch="local")
    with pytest.raises(ValueError, match="sqrt"):
        dd.scale_lr(torch.optim.SGD(nn.Linear(1, 1).parameters()), "square")
