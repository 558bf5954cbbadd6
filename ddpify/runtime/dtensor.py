"""Tensors of which each rank holds a part (DTensors): the parameters of a sharded model."""

import sys
from typing import Any, TypeGuard

import torch
import torch.distributed as dist

from ddpify.runtime.process import kept, world_size

DTENSOR = "torch.distributed.tensor"


def is_dtensor(x: Any) -> TypeGuard[torch.Tensor]:
    """Whether x is a DTensor; there is none before torch's module of them is imported."""
    module = sys.modules.get(DTENSOR)
    return module is not None and isinstance(x, module.DTensor)


def anything_is_sharded() -> bool:
    """Whether this process may hold DTensors at all."""
    return DTENSOR in sys.modules


class FullTensor(torch.autograd.Function):
    """A plain, whole tensor from parts.

    Its gradient is the mean of the ranks' gradients, as DistributedDataParallel and FSDP have
    it for a whole parameter: right where all ranks use the whole alike, as in a penalty, and
    where each uses it on its own rows.
    """

    @staticmethod
    def forward(ctx: Any, part: Any) -> torch.Tensor:
        """part: a DTensor."""
        ctx.like = part.detach()
        whole: torch.Tensor = ctx.like.full_tensor()
        return whole

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """The gradient of the part."""
        mean = kept(grads[0].contiguous() / world_size())
        dist.all_reduce(mean)
        return like_shard(mean, ctx.like)


def full_tensor(x: Any) -> Any:
    """The whole of a tensor that ranks hold in parts.

    x: a parameter of a sharded model, its gradient, or a result computed from them, such as a
    norm. Returns a plain tensor of the same shape on every rank, differentiable; anything else
    as it is. A collective where x is in parts.
    """
    return FullTensor.apply(x) if is_dtensor(x) else x  # type: ignore[no-untyped-call]


def full_tensors(x: Any) -> Any:
    """``full_tensor`` of the tensors in tuples, lists and dicts."""
    if type(x) is dict:
        return {key: full_tensors(value) for key, value in x.items()}
    if type(x) in (tuple, list):
        return type(x)(full_tensors(value) for value in x)
    return full_tensor(x)


def like_shard(whole: torch.Tensor, like: Any) -> torch.Tensor:
    """This rank's part of a whole tensor, as a DTensor laid out as ``like`` is.

    whole: a plain tensor of like's shape, the same on all ranks. No communication; the part is
    copied to like's device, and keeps the dtype of ``whole``. Where ``like`` is a sum that
    ranks hold in terms, the whole itself, as such a sum's gradient is.
    """
    from torch.distributed.tensor import DTensor, Replicate, Shard

    mesh = like.device_mesh
    local = whole.detach()
    placements = [p if isinstance(p, Shard) else Replicate() for p in like.placements]
    for place in (p for p in placements if isinstance(p, Shard)):
        parts = torch.chunk(local, mesh.size(), place.dim)
        at = mesh.get_local_rank()
        local = parts[at] if at < len(parts) else local.narrow(place.dim, 0, 0)
    # A copy: the part must not keep the whole alive.
    local = local.to(like.device, copy=True)
    made: torch.Tensor = DTensor.from_local(
        local, mesh, placements, run_check=False, shape=whole.shape, stride=whole.stride()
    )
    return made
