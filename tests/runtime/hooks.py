"""A hook that counts the buckets of gradients that are reduced."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

_Bucket = dist.GradBucket  # type: ignore[attr-defined]
_Reduced = torch.futures.Future[torch.Tensor]


def counting(sizes, bucket):  # type: ignore[no-untyped-def]
    """Note how many elements a bucket has, and reduce it."""
    sizes.append(bucket.buffer().numel())
    return allreduce_hook(dist.group.WORLD, bucket)  # type: ignore[arg-type]


counting.__annotations__ |= {"bucket": _Bucket, "return": _Reduced}  # which torch asks for
