"""Buffers that are the same on all ranks, where each rank's layers change them for themselves."""

import functools

import torch.distributed as dist
from torch import nn

from ddpify.runtime.joint_collectives import exchange_together


def broadcast_buffers(model: nn.Module) -> None:
    """Give every rank rank 0's buffers. A collective for each dtype and device among them.

    Autograd does not count it as a change: a backward that is still to come does not use the
    running statistics that BatchNorm changes in training, and DistributedDataParallel's own way
    lets it fail after two forwards.
    """
    exchange_together(
        (buffer.data for buffer in model.buffers()), functools.partial(dist.broadcast, src=0)
    )
