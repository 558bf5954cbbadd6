"""Batch normalisation over the global batch.

A layer becomes synchronised by a change of its class, in place: parameters, buffers and their
names, hooks, ``isinstance`` and references to the layer stay. Pickles and copies are of the
layer's own class again.
"""

import functools
import warnings
from typing import Any, cast

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from ddpify.runtime.classes import reduced_as, subclass_of
from ddpify.runtime.reduce import over_ranks
from ddpify.runtime.share import Share, current_share


class SyncedBatchNorm(_BatchNorm):
    """Mixed in before a batch normalisation class: statistics are those of the global batch."""

    plain: type[_BatchNorm]
    process_group = None  # nn.SyncBatchNorm.forward reads it

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """input: (N, C, ...) of this rank's samples; normalised as part of the global batch."""
        share = current_share()
        batch_statistics = self.training or self.running_mean is None
        if share is None or not batch_statistics:
            return super().forward(input)
        if input.is_cuda and self.training and not _has_ghosts(share):
            return nn.SyncBatchNorm.forward(self, input)  # type: ignore[arg-type]
        self._check_input_dim(input)  # type: ignore[no-untyped-call]
        return _normalised(self, input, share)

    def _check_non_zero_input_channels(self, input: torch.Tensor) -> None:
        nn.SyncBatchNorm._check_non_zero_input_channels(self, input)  # type: ignore[arg-type]

    def __reduce_ex__(self, protocol: Any) -> Any:
        """As the layer's own class, which the reader's process has."""
        return reduced_as(self.plain, type(self), super().__reduce_ex__(protocol))


def synchronise_batch_norm(model: nn.Module) -> bool:
    """Synchronise the model's batch normalisation layers in place; False where some cannot be."""
    complete = True
    for layer in model.modules():
        if not isinstance(layer, _BatchNorm) or isinstance(layer, SyncedBatchNorm):
            continue
        if type(layer).forward is _BatchNorm.forward:
            layer.__class__ = _synced_class(cast(Any, type(layer)))
        elif not isinstance(layer, nn.SyncBatchNorm):
            complete = False
            warnings.warn(
                f"{type(layer).__name__} has a forward of its own: it normalises each rank's part "
                "of the batch separately",
                stacklevel=4,
            )
    return complete


@functools.cache
def _synced_class(plain: Any) -> Any:
    return subclass_of(plain, SyncedBatchNorm, plain=plain)


def _has_ghosts(share: Share) -> bool:
    return share.total < torch.distributed.get_world_size()


def _normalised(layer: _BatchNorm, input: torch.Tensor, share: Share) -> torch.Tensor:
    """Two passes, as E[x^2] - E[x]^2 cancels: the mean of all rows, then the squares about it."""
    per_row = input[0].numel() // input.shape[1]
    if share.total == 1 and len(input) * per_row <= 1:
        raise ValueError(f"Expected more than 1 value per channel, got a batch of {share.total}")
    x = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
    over = [0, *range(2, x.dim())]
    shape = [1, -1, *[1] * (x.dim() - 2)]
    weight = 0.0 if share.ghost else 1.0
    # Sums over a whole batch are added up in float64, as torch's own kernels do.
    wide = torch.float64 if x.device.type in ("cpu", "cuda") else x.dtype
    rows = torch.full((1,), x.numel() // x.shape[1], dtype=wide, device=x.device)
    first = torch.cat([x.sum(over, dtype=wide), rows])
    summed = over_ranks(first, weight, None)
    count = summed[-1]
    mean_ = summed[:-1] / count
    centred = x - mean_.to(x.dtype).view(shape)
    variance = over_ranks((centred * centred).sum(over, dtype=wide), weight, None) / count
    _update_running(layer, mean_.detach(), variance.detach() * (count / (count - 1)).detach())
    out = centred * torch.rsqrt(variance + layer.eps).to(x.dtype).view(shape)
    if layer.weight is not None:
        out = out * layer.weight.view(shape)
    if layer.bias is not None:
        out = out + layer.bias.view(shape)
    return out.to(input.dtype)


@torch.no_grad()
def _update_running(layer: _BatchNorm, mean_: torch.Tensor, variance: torch.Tensor) -> None:
    """Move the running statistics as torch's own forward does; ``variance`` is the unbiased one."""
    if not layer.training or not layer.track_running_stats:
        return
    momentum = layer.momentum
    if layer.num_batches_tracked is not None:
        layer.num_batches_tracked.add_(1)
        if momentum is None:
            momentum = 1.0 / float(layer.num_batches_tracked)
    for running, new in ((layer.running_mean, mean_), (layer.running_var, variance)):
        if running is not None:
            running.mul_(1 - (momentum or 0.0)).add_(new.to(running.dtype), alpha=momentum or 0.0)
