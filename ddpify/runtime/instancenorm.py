"""Instance normalisation whose running statistics are those of the global batch.

Each sample is normalised by itself, but the running statistics move by the mean over the batch.
"""

import functools
from typing import Any, cast

import torch
from torch import nn
from torch.nn.modules.instancenorm import _InstanceNorm

from ddpify.runtime.classes import reduced_as, subclass_of
from ddpify.runtime.reduce import sum_scaled
from ddpify.runtime.share import current_share


class TrackedInstanceNorm(_InstanceNorm):
    """Mixed in before a class that tracks statistics: they are averaged over all samples."""

    plain: type[_InstanceNorm]

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """input: (N, C, ...) of this rank's samples, or (C, ...) of one sample."""
        out = super().forward(input)
        share = current_share()
        if share is not None and self.training and self.track_running_stats:
            batched = input.dim() > self._get_no_batch_dim()  # type: ignore[no-untyped-call]
            rows = len(input) if batched else 1
            _average([self.running_mean, self.running_var], 0 if share.ghost else rows)
        return out

    def __reduce_ex__(self, protocol: Any) -> Any:
        """As the layer's own class, which the reader's process has."""
        return reduced_as(self.plain, type(self), super().__reduce_ex__(protocol))


@torch.no_grad()
def _average(statistics: list[torch.Tensor | None], rows: int) -> None:
    """Replace each rank's running statistics by their mean over all ranks' rows. A collective.

    All ranks started from the same ones, of which each moved by its own rows' mean.
    """
    held = [one for one in statistics if one is not None]
    flat = torch.cat([torch.cat(held), held[0].new_ones(1)])
    summed = sum_scaled(flat, float(rows))
    for one, new in zip(held, (summed[:-1] / summed[-1]).chunk(len(held)), strict=True):
        one.copy_(new)


def track_over_ranks(model: nn.Module) -> None:
    """Let the model's tracking instance normalisation layers agree on their statistics."""
    for layer in model.modules():
        plain = isinstance(layer, _InstanceNorm) and not isinstance(layer, TrackedInstanceNorm)
        if plain and layer.track_running_stats:
            layer.__class__ = _tracked_class(cast(Any, type(layer)))


@functools.cache
def _tracked_class(plain: Any) -> Any:
    return subclass_of(plain, TrackedInstanceNorm, plain=plain)
