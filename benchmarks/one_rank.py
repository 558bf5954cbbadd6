"""One rank of many in one process: collectives end at once and change nothing."""

from __future__ import annotations

import torch
import torch.distributed as dist

from ddpify.runtime import process


def become_rank_zero(size: int) -> None:
    """Let ddpify's runtime take this process for rank 0 of ``size``, on the CPU."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.set_num_threads(1)
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=size)
    process._world = process.World(0, 0, size, torch.device("cpu"))
