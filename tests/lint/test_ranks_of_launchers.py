"""GPUs by the global rank under one launcher, where another one gets the rank within its node."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint

SCRIPT = """
import argparse
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def start(args):
    if "RANK" in os.environ:
        args.rank = int(os.environ["RANK"])
        args.gpu = {}
    elif "SLURM_PROCID" in os.environ:
        args.rank = int(os.environ["SLURM_PROCID"])
        args.gpu = args.rank % torch.cuda.device_count()
    {}
    torch.cuda.set_device(args.gpu)
    dist.init_process_group("nccl", rank=args.rank, world_size=int(os.environ["WORLD_SIZE"]))


args = argparse.ArgumentParser().parse_args()
start(args)
net = nn.Linear(2, 2).cuda()
model = DDP(net, device_ids=[args.gpu])
"""
GPUS = {
    "the rank": ('int(os.environ["RANK"])', "pass", True),
    "the rank, by a name": ("args.rank", "pass", True),
    "the rank of the node": ('int(os.environ["LOCAL_RANK"])', "pass", False),
    "the rest of the rank": ("args.rank % torch.cuda.device_count()", "pass", False),
    "the rank, at first": ("args.rank", "args.gpu = args.gpu % 8", False),
}


@pytest.mark.parametrize("name", GPUS)
def test_each_launcher_counts_for_itself(name: str, lint_text: Lint) -> None:
    gpu, after, found = GPUS[name]
    assert bool(lint_text(SCRIPT.format(gpu, after), select=("DDP203",), strict=True)) is found
