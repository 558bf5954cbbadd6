"""What convert says of scripts that are distributed already."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.convert.conversion import convert_file
from ddpify.planning.refusals import AlreadyDistributed

_HEAD = """
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
"""
_TRAINING = """
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(4, 1).cuda(), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(10):
        optimizer.zero_grad()
        model(torch.randn(8, 4).cuda()).sum().backward()
        optimizer.step()
"""
RIGHT = _HEAD + "\ndef main(local_rank):" + _TRAINING + '\nmain(int(os.environ["LOCAL_RANK"]))\n'
SPAWNED = (
    _HEAD
    + "\ndef main(local_rank):"
    + _TRAINING.replace('"nccl"', '"nccl", rank=local_rank, world_size=2')
    + "\ntorch.multiprocessing.spawn(main, nprocs=2)\n"
)


def _remedy(tmp_path: Path, text: str) -> str:
    script = tmp_path / "train.py"
    script.write_text(text)
    with pytest.raises(AlreadyDistributed) as refused:
        convert_file(script)
    assert refused.value.remedy is not None
    return refused.value.remedy


def test_a_right_script_stays_as_it_is(tmp_path: Path) -> None:
    assert "finds nothing in it" in _remedy(tmp_path, RIGHT)


def test_what_lint_can_mend_is_counted(tmp_path: Path) -> None:
    assert "ddpify lint --fix --unsafe-fixes" in _remedy(tmp_path, SPAWNED)
