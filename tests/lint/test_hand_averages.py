"""Scripts that average gradients themselves, as PyTorch's tutorial on distributed training does."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint

SCRIPT = """
import os
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.multiprocessing import Process
from torch.utils.data import DataLoader, TensorDataset


class Part:
    def __init__(self, data, index):
        self.data, self.index = data, index
    def __len__(self):
        return len(self.index)
    def __getitem__(self, i):
        return self.data[self.index[i]]


class Partitioner:
    def __init__(self, data, parts):
        self.data = data
        self.parts = [range(i, len(data), parts) for i in range(parts)]
    def use(self, number):
        return Part(self.data, self.parts[number])


def average(model):
    for one in model.parameters():
        dist.all_reduce(one.grad.data, op=dist.ReduceOp.SUM)
        one.grad.data /= dist.get_world_size()


def run(rank, size):
    torch.manual_seed(0)
    data = Partitioner(TensorDataset(torch.zeros(80, 4), torch.zeros(80)), size)
    loader = DataLoader(data.use(rank), batch_size=4)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        for x, y in loader:
            loss = (model(x).squeeze(1) - y).pow(2).mean()
            if epoch > 5:
                continue
            loss.backward()
            average(model)
            optimizer.step()


def start(rank, size, function):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", "29500"
    dist.init_process_group("gloo", rank=rank, world_size=size)
    function(rank, size)


if __name__ == "__main__":
    processes = [Process(target=start, args=(rank, 2, run)) for rank in range(2)]
    for one in processes:
        one.start()
    for one in processes:
        one.join()
"""


@pytest.mark.parametrize(
    ("code", "old", "new"),
    [
        ("DDP401", "average(model)\n            opt", "rank or average(model)\n            opt"),
        ("DDP402", "epoch > 5", "loss.item() > 5"),
        ("DDP406", "lr=0.1", "lr=0.1 * (rank + 1)"),
        ("DDP407", "optimizer.step()", "rank or optimizer.step()"),
        ("DDP501", "average(model)\n            opt",
         "torch.save(model.state_dict(), 'm')\n            opt"),
    ],
)  # fmt: skip
def test_what_goes_wrong_without_a_wrapper(code: str, old: str, new: str, lint_text: Lint) -> None:
    select = ("DDP1", "DDP2", "DDP3", "DDP4", "DDP5")
    assert old in SCRIPT
    assert not lint_text(SCRIPT, select=select)
    assert code in [one.code for one in lint_text(SCRIPT.replace(old, new, 1), select=select)]
