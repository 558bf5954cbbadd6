"""Buffers that are the same on all ranks, where each rank's layers change them for themselves."""

import functools

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ddpify.runtime.joint_collectives import exchange_together


def broadcast_buffers(model: nn.Module) -> None:
    """Give every rank rank 0's buffers. A collective for each dtype and device among them.

    Those in a sparse layout stay as they are: no layer changes them in a forward.

    Autograd does not count it as a change: a backward that is still to come does not use the
    running statistics that BatchNorm changes in training, and DistributedDataParallel's own way
    lets it fail after two forwards.
    """
    dense = (buffer.data for buffer in model.buffers() if buffer.layout is torch.strided)
    exchange_together(dense, functools.partial(dist.broadcast, src=0))


def leave_out_sparse_buffers(model: nn.Module) -> None:
    """Let DistributedDataParallel not send buffers in a sparse layout, which it cannot."""
    names = [n for n, buffer in model.named_buffers() if buffer.layout is not torch.strided]
    if names:
        leave_out = DistributedDataParallel._set_params_and_buffers_to_ignore_for_model
        leave_out(model, names)  # type: ignore[no-untyped-call]
