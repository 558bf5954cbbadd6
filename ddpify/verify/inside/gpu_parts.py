"""What PyTorch's DistributedDataParallel does on GPUs alone, done on the CPU."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.nn.modules.batchnorm import SyncBatchNorm
from torch.nn.parallel import DistributedDataParallel

from ddpify.verify.inside.patching import faked, replace


def install() -> None:
    """Let SyncBatchNorm and hooks that compress gradients work without a GPU."""
    if dist.is_available():
        _synchronise_batch_norm()
        _leave_gradients_uncompressed()


def _synchronise_batch_norm() -> None:
    real: Any = SyncBatchNorm.forward

    def forward(layer: SyncBatchNorm, input: torch.Tensor) -> torch.Tensor:
        several = dist.is_initialized() and dist.get_world_size(layer.process_group) > 1
        if input.is_cpu and layer.training and several:
            faked["SyncBatchNorm (gloo)"] += 1
            return _normalised(layer, input)
        result: torch.Tensor = real(layer, input)
        return result

    replace(SyncBatchNorm, "forward", forward)
    replace(DistributedDataParallel, "_passing_sync_batchnorm_handle", lambda *args: None)


def _normalised(layer: SyncBatchNorm, input: torch.Tensor) -> torch.Tensor:
    """input: (N, C, ...) of this rank; normalised with the mean and variance over all ranks."""
    from torch.distributed.nn import functional

    all_reduce: Any = functional.all_reduce
    group = layer.process_group or dist.group.WORLD
    over = [0, *range(2, input.dim())]
    shape = [1, -1, *[1] * (input.dim() - 2)]
    rows = input.new_full((1,), input.numel() // input.shape[1])
    summed = all_reduce(torch.cat([input.sum(over), rows]), group=group)
    count, mean = summed[-1].detach(), summed[:-1] / summed[-1]
    centred = input - mean.view(shape)
    variance = all_reduce((centred * centred).sum(over), group=group) / count
    _keep_statistics(layer, mean.detach(), variance.detach() * count / (count - 1))
    out: torch.Tensor = centred * torch.rsqrt(variance + layer.eps).view(shape)
    if layer.affine:
        out = out * layer.weight.view(shape) + layer.bias.view(shape)
    return out


@torch.no_grad()
def _keep_statistics(layer: SyncBatchNorm, mean: torch.Tensor, variance: torch.Tensor) -> None:
    """``variance`` is the one corrected for the number of rows."""
    if not layer.track_running_stats or layer.running_mean is None or layer.running_var is None:
        return
    rate = layer.momentum
    if layer.num_batches_tracked is not None:
        layer.num_batches_tracked.add_(1)
        rate = 1.0 / float(layer.num_batches_tracked) if rate is None else rate
    layer.running_mean.lerp_(mean, rate or 0.0)
    layer.running_var.lerp_(variance, rate or 0.0)


def _leave_gradients_uncompressed() -> None:
    """Compression rounds, as mixed precision does: gradients stay in double precision here."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    def uncompressed(
        process_group: Any,
        bucket: Any,
    ) -> torch.futures.Future[torch.Tensor]:
        faked["gradient compression"] += 1
        return default_hooks.allreduce_hook(process_group, bucket)

    # register_comm_hook checks annotations, which are texts in this module.
    uncompressed.__annotations__ = dict(default_hooks.allreduce_hook.__annotations__)
    for kind in ("fp16", "bf16"):
        replace(default_hooks, f"{kind}_compress_hook", uncompressed)
        replace(default_hooks, f"{kind}_compress_wrapper", lambda hook: hook)
