"""Batch normalisation as several ranks do it that do not synchronise it, on one process.

Each rank's part of the batch is normalised by itself; the running statistics are rank 0's, as
DistributedDataParallel sends rank 0's buffers to all.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from ddpify.verify.inside.patching import replace
from ddpify.verify.inside.replay import Replay


def install(world_size: int, replay: Replay | None, *, strided: bool) -> None:
    """Split what every BatchNorm layer normalises like the current batch.

    Args:
        world_size: Number of ranks, where ``replay`` does not know the parts' sizes.
        replay: The recorded batches.
        strided: Rank r takes rows r, r + world_size, ... instead of a contiguous part.
    """
    forward: Any = _BatchNorm.forward

    def by_rank(layer: Any, input: torch.Tensor) -> torch.Tensor:
        if not layer.training or len(input) < 2:
            whole: torch.Tensor = forward(layer, input)
            return whole
        order = _by_rank(len(input), replay.parts if replay else [])
        if strided:
            order = [torch.arange(rank, len(input), world_size) for rank in range(world_size)]
        elif order is None:
            order = list(torch.arange(len(input)).tensor_split(world_size))
        parts = [
            _part(layer, forward, input[rows], rank) for rank, rows in enumerate(order) if len(rows)
        ]
        back = torch.argsort(torch.cat(order))
        return torch.cat(parts)[back]

    replace(_BatchNorm, "forward", by_rank)


def _part(layer: Any, forward: Any, rows: torch.Tensor, rank: int) -> torch.Tensor:
    """One rank's rows; only rank 0's move the running statistics."""
    kept = dict(layer._buffers)
    if rank:  # copies, as the backward pass asks for what the forward pass has seen
        copied = {name: None if value is None else value.clone() for name, value in kept.items()}
        layer._buffers.update(copied)
    out: torch.Tensor = forward(layer, rows)
    layer._buffers.update(kept)
    return out


def _by_rank(total: int, sizes: list[int]) -> list[torch.Tensor] | None:
    """The rows of each rank among ``total``, which may hold several views of the batch in a row."""
    batch = sum(sizes)
    if not batch or total % batch:
        return None
    views = torch.arange(total).view(total // batch, batch)
    return [rows.reshape(-1) for rows in torch.split(views, [n for n in sizes if n], dim=1)]
