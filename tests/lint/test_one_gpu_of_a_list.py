"""Ranks that take one GPU out of a list that all of them are given."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.lint.config import Settings
from ddpify.lint.engine import lint
from ddpify.lint.files.document import Document

SCRIPT = """
import argparse
import multiprocessing as mp
import os

def worker(rank, devices):
    {choose}
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP
    dist.init_process_group("nccl", rank=rank, world_size=4)
    {device}
    model = DDP(torch.nn.Linear(2, 2).to(device))
    data = torch.utils.data.TensorDataset(torch.zeros(10, 2))
    sampler = torch.utils.data.distributed.DistributedSampler(data)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for (x,) in torch.utils.data.DataLoader(data, sampler=sampler):
            optimizer.zero_grad()
            model(x.to(device)).mean().backward()
            optimizer.step()

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--devices", nargs="+", default=["cuda:0"])
    parser.add_argument("--gpus", default="0,1")
    args = parser.parse_args()
    for rank in range(4):
        mp.Process(target=worker, args=(rank, {given})).start()
"""
ALL = "args.devices"
NUMBERS = "[int(x) for x in args.gpus.split(',')]"
SHOW = 'os.environ["CUDA_VISIBLE_DEVICES"] = str(devices[{}].split(":")[-1])'
CURRENT = 'device = torch.device("cuda")'
PITFALLS = {
    "shown": (SHOW.format(0), CURRENT, ALL, "DDP204"),
    "chosen": ("pass", "torch.cuda.set_device(devices[0])\n    device = 'cuda'", ALL, "DDP201"),
    "moved to": ("pass", "device = torch.device(devices[0])", ALL, "DDP201"),
    "read from a text": ("pass", "device = f'cuda:{devices[0]}'", NUMBERS, "DDP201"),
    "written": ("pass", "device = torch.device(devices[0])", '["cuda:0", "cuda:1"]', "DDP201"),
}
INNOCENT = {
    "shown": (SHOW.format("rank"), CURRENT, ALL),
    "moved to": ("pass", "device = torch.device(devices[rank])", ALL),
    "read from a text": ("pass", "device = f'cuda:{devices[rank]}'", NUMBERS),
    "a list of its own": (SHOW.format(0), CURRENT, "[args.devices[rank]]"),
    "a part of its own": ("pass", "device = torch.device(devices[0])", "args.devices[rank:]"),
}


def _codes(folder: Path, choose: str, device: str, given: str) -> set[str]:
    path = folder / "train.py"
    path.write_text(SCRIPT.format(choose=choose, device=device, given=given))
    result = lint(Document(str(path), path.read_bytes()), Settings(root=folder))
    assert result.failure is None, result.failure
    return {one.code for one in result.found} & {"DDP201", "DDP204"}


@pytest.mark.parametrize(("choose", "device", "given", "code"), PITFALLS.values(), ids=PITFALLS)
def test_the_same_gpu_is_found(
    choose: str, device: str, given: str, code: str, tmp_path: Path
) -> None:
    assert _codes(tmp_path, choose, device, given) == {code}


@pytest.mark.parametrize(("choose", "device", "given"), INNOCENT.values(), ids=INNOCENT)
def test_a_gpu_of_its_own_is_left(choose: str, device: str, given: str, tmp_path: Path) -> None:
    assert _codes(tmp_path, choose, device, given) == set()


OF_ONE = """
import os
os.environ["CUDA_VISIBLE_DEVICES"] = "1"
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
if "RANK" in os.environ:
    dist.init_process_group("nccl")
model = DDP(torch.nn.Linear(2, 2).cuda())
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x in torch.zeros(10, 4, 2):
    model(x.cuda()).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("commands", "found"),
    [
        ("", True),
        ("torchrun --nproc_per_node=2 train.py", True),
        ("torchrun --nproc_per_node=2 other.py", False),
        ("python train.py --eval", False),
        ("python train.py --eval\n    srun python train.py", True),
    ],
)
def test_one_gpu_is_for_scripts_that_nothing_starts_as_ranks(
    commands: str, found: bool, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "README.md").write_text(f"    {commands}\n")
    path = tmp_path / "train.py"
    path.write_text(OF_ONE)
    result = lint(Document(str(path), path.read_bytes()), Settings(root=tmp_path))
    assert ("DDP204" in {one.code for one in result.found}) is found
