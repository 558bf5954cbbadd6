"""Ranks that start with a method of an object: what runs before them, and what they are told."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint

SCRIPT = """
import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

class Cache:
    def __init__(self, folder):
        if not os.path.exists(folder):
            os.makedirs(folder)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.part = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout())

    def forward(self, x):
        return self.part(x)

class Trainer:
    def __init__(self, net, data):
        self.net, self.data = net, data

    def train(self, {told}):
        torch.manual_seed(rank)
        dist.init_process_group("nccl", init_method="tcp://127.0.0.1:1", rank=rank, world_size=2)
        {here}
        model = DDP(self.net.to(rank), device_ids=[rank])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        sampler = DistributedSampler(self.data)
        for epoch in range(3):
            sampler.set_epoch(epoch)
            for x, y in DataLoader(self.data, 8, sampler=sampler):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x.to(rank)), y.to(rank)).backward()
                optimizer.step()
        if rank == 0:
            torch.save(self.net.state_dict(), "net.pt")

def main():
    {before}
    data = TensorDataset(torch.zeros(100, 2), torch.zeros(100).long())
    trainer = Trainer(Net(), data)
    {start}

if __name__ == "__main__":
    main()
"""
SPAWN = "mp.spawn(trainer.train, args=(2,), nprocs=2)"
STARTED = "[mp.Process(target=trainer.train, args=(2, i)).start() for i in range(2)]"


def _found(lint_text: Lint, **parts: str) -> set[str]:
    given = {"told": "rank, world", "here": "pass", "before": "pass", "start": SPAWN} | parts
    return {one.code for one in lint_text(SCRIPT.format(**given))} - {"DDP710"}


@pytest.mark.parametrize(
    "start", [{"start": SPAWN}, {"start": STARTED, "told": "world, rank"}], ids=["spawn", "process"]
)
def test_what_runs_before_methods_that_are_ranks(start: dict[str, str], lint_text: Lint) -> None:
    assert _found(lint_text, before='Cache("cache")', **start) == set()
    assert _found(lint_text, here='Cache("cache")', **start) == {"DDP506"}
