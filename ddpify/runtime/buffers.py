"""Buffers that are the same on all ranks, where each rank's layers change them for themselves."""

from collections import defaultdict

import torch
import torch.distributed as dist
from torch import nn

from ddpify.runtime.process import kept


@torch.no_grad()
def broadcast_buffers(model: nn.Module) -> None:
    """Give every rank rank 0's buffers. A collective for each dtype and device among them.

    Autograd does not count it as a change: a backward that is still to come does not use the
    running statistics that BatchNorm changes in training, and DistributedDataParallel's own way
    lets it fail after two forwards.
    """
    alike: dict[tuple[torch.dtype, torch.device], list[torch.Tensor]] = defaultdict(list)
    for buffer in model.buffers():
        alike[buffer.dtype, buffer.device].append(buffer.data)
    for buffers in alike.values():
        flat = kept(torch.cat([buffer.reshape(-1) for buffer in buffers]))
        dist.broadcast(flat, src=0)
        parts = torch.split(flat, [buffer.numel() for buffer in buffers])
        for buffer, part in zip(buffers, parts, strict=True):
            buffer.copy_(part.view_as(buffer))
