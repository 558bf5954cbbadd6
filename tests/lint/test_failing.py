"""What comes after a call that surely fails is possible: no run gets to it."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint

HEAD = """
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, TensorDataset

dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 2))
sampler = DistributedSampler(data)
model = DDP(nn.Linear(4, 2).to(rank), device_ids=[rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.MSELoss()


def train(loader):
    for epoch in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x.to(rank)), y.to(rank)).backward()
            optimizer.step()
        torch.save(model.state_dict(), "model.pt")


"""
LATER = {"DDP102", "DDP501", "DDP503"}
FAILS = {
    "in the file": "loader = DataLoader(data, 8, shuffle=True, sampler=sampler)\ntrain(loader)\n",
    "by its place": "loader = DataLoader(data, 8, True, sampler)\ntrain(loader)\n",
    "whatever samples": (
        "loader = DataLoader(data, 8, sampler=sampler)\n"
        "other = DataLoader(data, 8, shuffle=True, sampler=RandomSampler(data))\ntrain(loader)\n"
    ),
    "in a function": (
        "def make():\n    return DataLoader(data, 8, shuffle=True, sampler=sampler)\n\n"
        "train(make())\n"
    ),
    "in a function of a function": (
        "def make():\n    return DataLoader(data, 8, shuffle=True, sampler=sampler)\n\n"
        "def both():\n    return make(), None\n\nloader, _ = both()\ntrain(loader)\n"
    ),
    "in what calls the training": (
        "def main():\n    loader = DataLoader(data, 8, shuffle=True, sampler=sampler)\n"
        "    train(loader)\n\nmain()\n"
    ),
    "in a class": (
        "class Loop:\n    def __init__(self):\n"
        "        self.loader = DataLoader(data, 8, shuffle=True, sampler=sampler)\n"
        "    def run(self):\n        train(self.loader)\n\nloop = Loop()\nloop.run()\n"
    ),
    "under the condition of the training": (
        "if torch.cuda.device_count() > 1:\n"
        "    loader = DataLoader(data, 8, shuffle=True, sampler=sampler)\n    train(loader)\n"
    ),
    "in the loop of the training": (
        "for fold in range(2):\n    loader = DataLoader(data, 8, shuffle=True, sampler=sampler)\n"
        "    train(loader)\n"
    ),
    "with a method": (
        "class Loop:\n    def loader(self):\n"
        "        return DataLoader(data, 8, shuffle=True, sampler=sampler)\n\n"
        "train(Loop().loader())\n"
    ),
}
GOES_ON = {
    "a question of the sampler": (
        "loader = DataLoader(data, 8, shuffle=sampler is None, sampler=sampler)\ntrain(loader)\n"
    ),
    "no shuffling": "loader = DataLoader(data, 8, shuffle=False, sampler=sampler)\ntrain(loader)\n",
    "another order": (
        "loader = DataLoader(data, 8, sampler=sampler)\ntrain(loader)\n"
        "other = DataLoader(data, 8, shuffle=True, sampler=sampler)\n"
    ),
    "a condition": (
        "loader = DataLoader(data, 8, sampler=sampler)\nif os.environ.get('OTHER'):\n"
        "    loader = DataLoader(data, 8, shuffle=True, sampler=sampler)\ntrain(loader)\n"
    ),
    "a loop that may be empty": (
        "loader = DataLoader(data, 8, sampler=sampler)\nfor name in os.listdir('more'):\n"
        "    other = DataLoader(data, 8, shuffle=True, sampler=sampler)\ntrain(loader)\n"
    ),
    "a handler": (
        "try:\n    loader = DataLoader(data, 8, shuffle=True, sampler=sampler)\n"
        "except ValueError:\n    loader = DataLoader(data, 8, sampler=sampler)\ntrain(loader)\n"
    ),
    "a function that nobody calls": (
        "def other():\n    return DataLoader(data, 8, shuffle=True, sampler=sampler)\n\n"
        "loader = DataLoader(data, 8, sampler=sampler)\ntrain(loader)\n"
    ),
    "a function with a condition": (
        "def make(other):\n    if other:\n"
        "        return DataLoader(data, 8, shuffle=True, sampler=sampler)\n"
        "    return DataLoader(data, 8, sampler=sampler)\n\n"
        "train(make(bool(os.environ.get('OTHER'))))\n"
    ),
    "a lambda that nobody calls": (
        "make = lambda: DataLoader(data, 8, shuffle=True, sampler=sampler)\n"
        "loader = DataLoader(data, 8, sampler=sampler)\ntrain(loader)\n"
    ),
    "one of two expressions": (
        "other = torch.cuda.device_count() > 8\n"
        "made = DataLoader(data, 8, shuffle=True, sampler=sampler) if other else None\n"
        "loader = DataLoader(data, 8, sampler=sampler)\ntrain(loader)\n"
    ),
    "one of two functions": (
        "def one():\n    return DataLoader(data, 8, shuffle=True, sampler=sampler)\n\n"
        "def two():\n    return DataLoader(data, 8, sampler=sampler)\n\n"
        "make = one if os.environ.get('OTHER') else two\ntrain(make())\n"
    ),
    "a generator that is not gone through": (
        "def make():\n    yield DataLoader(data, 8, shuffle=True, sampler=sampler)\n\n"
        "made = make()\nloader = DataLoader(data, 8, sampler=sampler)\ntrain(loader)\n"
    ),
    "a sampler that may not be there": (
        "maybe = sampler if os.environ.get('SPLIT') else None\n"
        "loader = DataLoader(data, 8, shuffle=True, sampler=maybe)\ntrain(loader)\n"
    ),
}


@pytest.mark.parametrize("name", FAILS)
def test_what_comes_after_a_failure_is_possible(name: str, lint_text: Lint) -> None:
    text = HEAD + FAILS[name]
    assert {one.code for one in lint_text(text)} & {"DDP103", *LATER} == {"DDP103"}
    assert {one.code for one in lint_text(text, strict=True)} >= {"DDP103", "DDP501", "DDP503"}


@pytest.mark.parametrize("name", GOES_ON)
def test_what_may_run_all_the_same_is_shown(name: str, lint_text: Lint) -> None:
    found = {one.code for one in lint_text(HEAD + GOES_ON[name])}
    assert found >= {"DDP501", "DDP503"}


def test_what_comes_before_a_failure_is_shown(lint_text: Lint) -> None:
    text = (
        HEAD
        + 'with open("log.txt", "w") as log:\n    log.write("started")\n'
        + FAILS["in the file"]
    )
    assert {one.code for one in lint_text(text)} >= {"DDP103", "DDP501"}
