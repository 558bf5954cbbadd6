"""Old launching code, moved to torchrun by the fixes, really trains there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ddpify.lint.command import run
from ddpify.lint.lint_options import Options

_TRAINING = """
    dataset = TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)
    model = MODEL
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    total = sum(p.sum() for p in model.parameters()).item()
    # In one write: torchrun's ranks are not buffered, and share their output.
    os.write(1, f"rank {dist.get_rank()} of {dist.get_world_size()}: {total:.6f}\\n".encode())
    dist.barrier()
    os._exit(0)  # gloo's threads may abort a process that destroys its group
"""
_IMPORTS = """import argparse
import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
"""
_WRAPPED = _TRAINING.replace("MODEL", "DDP(nn.Linear(4, 1))")

SPAWNED = (
    _IMPORTS
    + """

def main_worker(rank, world_size, seed):
    torch.manual_seed(seed + rank)
    dist.init_process_group(
        "gloo", init_method="tcp://127.0.0.1:29511", world_size=world_size, rank=rank
    )
"""
    + _WRAPPED
    + """

if __name__ == "__main__":
    mp.spawn(main_worker, args=(2, 7), nprocs=2, join=True)
"""
)
BY_HAND = (
    _IMPORTS
    + """

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--world-size", type=int, default=1)
    args = parser.parse_args()
    dist.init_process_group(
        backend="gloo",
        init_method="tcp://127.0.0.1:29512",
        rank=args.rank,
        world_size=args.world_size,
    )
    torch.manual_seed(dist.get_rank())
"""
    + _WRAPPED
    + """

main()
"""
)
LAUNCHED = (
    _IMPORTS
    + """

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=-1)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(args.local_rank)
    assert args.local_rank >= 0
"""
    + _WRAPPED
    + """

if __name__ == "__main__":
    main()
"""
)
APEX = (
    _IMPORTS.replace("torch.nn.parallel", "apex.parallel")
    + "from apex.parallel import convert_syncbn_model\n"
    + """

def main():
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    if torch.cuda.is_available():
        model = convert_syncbn_model(model)
"""
    + _TRAINING.replace("MODEL", "DDP(model, delay_allreduce=True)")
    + """

if __name__ == "__main__":
    main()
"""
)
SCRIPTS = {"spawned": SPAWNED, "by hand": BY_HAND, "launched": LAUNCHED, "apex": APEX}


def _fixed(script: str, folder: Path) -> Path:
    path = folder / "train.py"
    path.write_text(script)
    (folder / ".git").mkdir(exist_ok=True)  # what lies above it is of no project
    run([path], Options(fix=True, unsafe_fixes=True, no_cache=True, quiet=True))
    return path


def test_a_spawn_becomes_a_call(tmp_path: Path) -> None:
    text = _fixed(SPAWNED, tmp_path).read_text()
    assert 'main_worker(int(os.environ["RANK"]), 2, 7)' in text  # it seeds with it
    assert '        "gloo"\n    )' in text
    assert "mp.spawn" not in text


GUARDED = """import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def main(rank):
    dist.init_process_group("nccl", rank=rank, world_size=2)
    torch.cuda.set_device(rank)
    model = torch.nn.Linear(2, 2).to(rank)
    if rank == 0:
        torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    mp.spawn(main, nprocs=2)
"""


def test_a_spawned_rank_is_the_global_one_where_it_guards_files(tmp_path: Path) -> None:
    """Else one rank of every node would write the file; devices are chosen by the local rank."""
    text = _fixed(GUARDED, tmp_path).read_text()
    local = 'int(os.environ["LOCAL_RANK"])'
    assert f"set_device({local})" in text and f".to({local})" in text
    assert 'main(int(os.environ["RANK"]))' in text and "if rank == 0:" in text
    alone = GUARDED[: GUARDED.index("    if rank")] + GUARDED[GUARDED.index("\n\nif __name__") :]
    text = _fixed(alone, tmp_path).read_text()
    assert f"main({local})" in text and "set_device(rank)" in text


ELSEWHERE = """import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def setup(rank, dtype):
    dist.init_process_group("nccl", rank=rank, world_size=2)
    return torch.device(f"cuda:{rank}")


class Trainer:
    def __init__(self, gpu_id, device):
        self.gpu_id = gpu_id
        self.model = torch.nn.Linear(2, 2).to(gpu_id)
        self.scale = torch.ones(2).to(device)

    def save(self):
        if self.gpu_id == 0:
            torch.save(self.model.to(self.gpu_id).state_dict(), "model.pt")


def main(rank):
    trainer = Trainer(rank, setup(rank, torch.float32))
    trainer.save()


if __name__ == "__main__":
    mp.spawn(main, nprocs=2)
"""


def test_devices_that_other_functions_choose_are_of_the_local_rank(tmp_path: Path) -> None:
    text = _fixed(ELSEWHERE, tmp_path).read_text()
    local = 'int(os.environ["LOCAL_RANK"])'
    assert text.count(f".to({local})") == 2
    assert f'(f"cuda:{{{local}}}")'.replace('["LOCAL_RANK"]', "['LOCAL_RANK']") in text
    assert "self.gpu_id = gpu_id" in text and "if self.gpu_id == 0:" in text
    assert ".to(device)" in text and 'main(int(os.environ["RANK"]))' in text


def test_apex_is_gone(tmp_path: Path) -> None:
    text = _fixed(APEX, tmp_path).read_text()
    assert "apex" not in text
    assert "torch.nn.parallel.DistributedDataParallel(model)" in text


@pytest.mark.torchrun
@pytest.mark.parametrize("name", SCRIPTS)
def test_it_trains_under_torchrun(name: str, tmp_path: Path) -> None:
    path = _fixed(SCRIPTS[name], tmp_path)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*command, str(path)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = sorted(line for line in done.stdout.splitlines() if line.startswith("rank "))
    assert [line.split(":")[0] for line in said] == ["rank 0 of 2", "rank 1 of 2"]
    assert len({line.split(": ")[1] for line in said}) == 1
