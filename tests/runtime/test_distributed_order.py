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


def _centered(samples: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Each sample, and what all of them have together."""
    rows = torch.stack([row for (row,) in samples]).double()
    return rows, rows.mean(0)


def _together(batch: str) -> list[Any]:
    samples = TensorDataset(torch.arange(23) ** 2)
    loader = DataLoader(samples, batch_size=6, shuffle=True, collate_fn=_centered)
    options = {"sampler": "distributed", "batch": batch, "collate": "global", "dim": (0, None)}
    shared = dd.shard(loader, **options)  # type: ignore[arg-type]
    return [(rows.tolist(), mean.item()) for rows, mean in shared]


@pytest.mark.parametrize("batch", ["global", "per-rank"])
@pytest.mark.parametrize("size", [2, 3])
def test_batches_that_are_put_together_whole(size: int, batch: str) -> None:
    """What the collate function makes of all samples is that of all ranks' samples."""
    results = ranks.run(lambda: _together(batch), size)
    sampler: list[DistributedSampler[Any]] = [
        DistributedSampler(TensorDataset(torch.arange(23)), size, rank) for rank in range(size)
    ]
    for rank, result in enumerate(results):
        seen = [row for rows, _ in result for row in rows]
        assert seen == [float(i) ** 2 for i in sampler[rank]]
    for step in zip(*results, strict=True):
        together = torch.tensor([row for rows, _ in step for row in rows], dtype=torch.float64)
        assert [mean for _, mean in step] == [together.mean().item()] * size


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
