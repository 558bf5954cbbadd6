"""The classic order: what each rank's DistributedSampler would give it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import (
    DataLoader,
    DistributedSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from ddpify import runtime as dd
from tests.runtime import ranks


def _epochs() -> dict[str, Any]:
    samples = TensorDataset(torch.arange(23))
    loader = dd.shard(DataLoader(samples, batch_size=6, shuffle=True), sampler="distributed")
    sampler: DistributedSampler[Any] = DistributedSampler(
        samples, dd.world_size(), dd.rank(), shuffle=True
    )
    seen, expected = [], []
    for epoch in range(3):
        seen.append(torch.cat([batch for (batch,) in loader]).tolist())
        sampler.set_epoch(epoch)
        expected.append(list(sampler))
    return {"seen": seen, "expected": expected, "steps": len(loader)}


@pytest.mark.parametrize("size", [2, 3])
def test_each_epoch_is_the_distributed_samplers(size: int) -> None:
    results = ranks.run(_epochs, size)
    for result in results:
        assert result["seen"] == result["expected"]
        assert result["seen"][0] != result["seen"][1]
    assert {result["steps"] for result in results} == {4}


def _weighted() -> str:
    samples = TensorDataset(torch.arange(3))
    loader = DataLoader(samples, sampler=WeightedRandomSampler([1.0, 1.0, 1.0], 3))
    try:
        dd.shard(loader, sampler="distributed")
    except TypeError as error:
        return str(error)
    return ""


def test_a_sampler_of_the_scripts_own_is_not_replaced() -> None:
    assert all("WeightedRandomSampler" in text for text in ranks.run(_weighted, 2))
