"""Whole scripts, in ways of training that single lines do not show, at 1, 2 and 3 ranks."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

_HEAD = """\
from itertools import cycle

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(7)
xs, ys, us = torch.randn(21, 4), torch.randint(0, 3, (21,)), torch.randn(27, 4)
loader = DataLoader(TensorDataset(xs, ys), batch_size=6, shuffle=True)
others = DataLoader(TensorDataset(us), batch_size=8, shuffle=True)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
_STEP = """
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.6f}")
"""
SCRIPTS = {
    "prototypes of a batch's first samples": """
for x, y in DataLoader(TensorDataset(xs, ys), batch_size=7):
    support, query = x[:3], x[3:]
    prototypes = model(support)
    distances = torch.cdist(model(query), prototypes)
    loss = F.cross_entropy(-distances, torch.arange(4) % 3)
""",
    "a prefetcher": """
class Prefetcher:
    def __init__(self, loader):
        self.loader = iter(loader)
        self.preload()

    def preload(self):
        try:
            self.coming = next(self.loader)
        except StopIteration:
            self.coming = None, None

    def next(self):
        x, y = self.coming
        if x is not None:
            self.preload()
        return x, y


ahead = Prefetcher(loader)
x, y = ahead.next()
while x is not None:
    out = model(x + 0.1 * torch.rand(len(x), 1))
    loss = F.cross_entropy(out, y) + out.std()
    x, y = ahead.next()
""",
    "samples of the two batches before": """
first = second = None
for x, y in loader:
    loss = F.cross_entropy(model(x), y)
    if first is not None:
        loss = loss + F.cross_entropy(model(first[0]), first[1])
    if second is not None:
        loss = loss + 0.5 * F.cross_entropy(model(second[0]), second[1])
    second = first
    first = x, y
""",
    "distances between two loaders' samples": """
def discrepancy(a, b):
    return torch.exp(-torch.cdist(a, b)).mean()


more = iter(others)
for x, y in loader:
    try:
        u = next(more)[0]
    except StopIteration:
        more = iter(others)
        u = next(more)[0]
    here = model(x)
    there = model(u)
    loss = F.cross_entropy(here, y)
    loss = loss + discrepancy(here, here) - 2 * discrepancy(here, there)
""",
    "loaders that have no name where they are used": """
class Endless:
    def __init__(self, loader):
        self.loader, self.rest = loader, iter(loader)

    def __next__(self):
        try:
            return next(self.rest)
        except StopIteration:
            self.rest = iter(self.loader)
            return next(self.rest)


def total(source, target):
    x, y = next(source)
    (u,) = next(target)
    out = model(torch.cat([x, u]))
    known = F.cross_entropy(out[: len(x)], y)
    flat = out[len(x) :].softmax(1).pow(2).sum(1).mean()
    return known - 0.1 * flat


source, target = Endless(loader), Endless(others)
for step in range(5):
    loss = total(source, target)
""",
    "two views of one loader's batch under another's": """
for (x, y), (u,) in zip(cycle(loader), others):
    out = model(torch.cat([x, u + 0.1, 1.1 * u]))
    weak, strong = out[len(x) :].chunk(2)
    guess = weak.detach().softmax(1).max(1)
    unsure = F.cross_entropy(strong, guess.indices, reduction="none")
    loss = F.cross_entropy(out[: len(x)], y)
    loss = loss + (unsure * guess.values.ge(0.4).to(out.dtype)).mean()
""",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_trains_as_on_one_process(trial: Trial, name: str) -> None:
    verdict = trial.verdict(_HEAD + SCRIPTS[name] + _STEP)
    assert verdict.outcome is Outcome.SAME, verdict.detail
