"""How many samples a batch has, so that steps of different batches can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch


def samples_of(batch: Any) -> int:
    """Rows of the first tensor in a batch that has any; 0 where there is none."""
    if isinstance(batch, torch.Tensor):
        return batch.shape[0] if batch.dim() else 0
    if isinstance(batch, Mapping):
        parts = list(batch.values())
    elif isinstance(batch, list | tuple):
        parts = list(batch)
    else:
        parts = list(getattr(batch, "__dict__", {}).values())
    return next((found for found in map(samples_of, parts) if found), 0)


def is_replicated(loader: Any) -> bool:
    """Whether each rank of a converted script gets the same batches from a loader, all of them.

    Where such batches are split is for the script: how many are a rank's own cannot be told.
    """
    told: dict[str, Any] = loader.__dict__
    return "ddpify_sampler" in told and not (told["ddpify_sampler"] or told["ddpify_in_batch"])
