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


def install(world_size: int, replay: Replay | None) -> None:
    """Split what every BatchNorm layer normalises like the batch at hand."""
    forward: Any = _BatchNorm.forward

    def by_rank(layer: Any, input: torch.Tensor) -> torch.Tensor:
        if not layer.training or len(input) < 2:
            whole: torch.Tensor = forward(layer, input)
            return whole
        sizes = (replay.parts if replay else None) or _even(len(input), world_size)
        order = _by_rank(len(input), sizes)
        if order is None:
            order = _by_rank(len(input), _even(len(input), world_size))
        assert order is not None, "an even split always fits"
        parts = [_part(layer, forward, input[rows], rank) for rank, rows in enumerate(order)]
        back = torch.argsort(torch.cat(order))
        return torch.cat(parts)[back]

    replace(_BatchNorm, "forward", by_rank)


def _part(layer: Any, forward: Any, rows: torch.Tensor, rank: int) -> torch.Tensor:
    """One rank's rows; only rank 0's move the running statistics."""
    kept = {name: value.clone() for name, value in layer._buffers.items() if value is not None}
    out: torch.Tensor = forward(layer, rows)
    if rank:
        with torch.no_grad():
            for name, value in kept.items():
                layer._buffers[name].copy_(value)
    return out


def _even(total: int, world_size: int) -> list[int]:
    """Sizes of contiguous parts; the first ones take what is over."""
    base, extra = divmod(total, world_size)
    return [base + (rank < extra) for rank in range(world_size) if base or rank < extra]


def _by_rank(total: int, sizes: list[int]) -> list[torch.Tensor] | None:
    """The rows of each rank among ``total``, which may hold several views of the batch in a row."""
    batch = sum(sizes)
    if not batch or total % batch:
        return None
    views = torch.arange(total).view(total // batch, batch)
    return [rows.reshape(-1) for rows in torch.split(views, [n for n in sizes if n], dim=1)]
