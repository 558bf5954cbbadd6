"""Scripts that start a rank for each GPU that their commands show them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.lint.config import Settings
from ddpify.lint.engine import lint
from ddpify.lint.files.document import Document

SCRIPT = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

def worker(rank, count):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", "tcp://localhost:2345", rank=rank, world_size=count)
    model = torch.nn.Linear(2, 2)
    model.load_state_dict(torch.load("model.pt"))
    model = DDP(model.cuda(), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    data = torch.utils.data.TensorDataset(torch.zeros(10, 2))
    sampler = torch.utils.data.distributed.DistributedSampler(data)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for (x,) in torch.utils.data.DataLoader(data, sampler=sampler):
            optimizer.zero_grad()
            model(x.cuda()).mean().backward()
            optimizer.step()
        torch.save(model.module.state_dict(), "model.pt")

if __name__ == "__main__":
    count = torch.cuda.device_count()
    torch.multiprocessing.spawn(worker, nprocs=count, args=(count,))
"""
SHOWN = "CUDA_VISIBLE_DEVICES={} python train.py"


@pytest.mark.parametrize(
    ("commands", "found"),
    [
        ("python train.py", True),
        (SHOWN.format("0,1"), True),
        (f"{SHOWN.format(0)}\n    python train.py --large", True),
        (SHOWN.format("0 python other.py; true &&"), True),
        (SHOWN.format(0), False),
        (SHOWN.format('"3"'), False),
    ],
)
def test_one_gpu_is_one_rank(commands: str, found: bool, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "README.md").write_text(f"    {commands}\n")
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    result = lint(Document(str(path), path.read_bytes()), Settings(root=tmp_path))
    assert ({"DDP205", "DDP501"} <= {one.code for one in result.found}) is found
