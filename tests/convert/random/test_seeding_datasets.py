"""Data sets that seed the global generators for each sample: what is drawn next follows from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.convert.examples import added

SEEDED = """\
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split


class Base(Dataset):
    def __init__(self, size):
        draw = torch.Generator().manual_seed(1)
        self.x = torch.randn(size, 6, generator=draw)

    def __len__(self):
        return len(self.x)

    def fix(self, index):
        torch.manual_seed(index)
        np.random.seed(index + 7)
        random.seed(3)


class Pictures(Base):
    def __getitem__(self, index):
        SEEDS
        return self.x[index] + torch.randn(6) * 0.1 + np.random.rand() + random.random()


torch.manual_seed(0)
data = DATA
feed = DataLoader(data, batch_size=5, shuffle=True)
net = nn.Linear(6, 1)
rule = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(3):
    for x in feed:
        rule.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        rule.step()
    print(epoch, loss.item(), np.random.rand(), random.random())
"""
ALL = "torch.manual_seed(index); np.random.seed(index); random.seed(index)"


@pytest.mark.parametrize(
    ("seeds", "data"),
    [
        (ALL, "Pictures(22)"),
        (ALL, "random_split(Pictures(30), [22, 8])[0]"),
        (ALL, "torch.utils.data.Subset(Pictures(30), range(21))"),
        ("self.fix(index)", "Pictures(23)"),
    ],
)
def test_what_is_drawn_next_follows_from_the_last_sample(
    trial: Trial, seeds: str, data: str
) -> None:
    verdict = trial.verdict(SEEDED.replace("SEEDS", seeds).replace("DATA", data))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize(
    "seeds",
    [
        "pass",
        "torch.manual_seed(np.random.randint(99))",
        "seed = random.randint(0, 99)\n        torch.manual_seed(seed)",
    ],
)
def test_drawn_seeds_ask_for_no_other_sample(tmp_path: Path, seeds: str) -> None:
    script = SEEDED.replace("SEEDS", seeds).replace("DATA", "Pictures(22)")
    assert "feed = dd.shard(DataLoader(data, batch_size=5, shuffle=True))" in added(
        tmp_path, script
    )


def test_another_data_set_asks_for_no_other_sample(tmp_path: Path) -> None:
    script = SEEDED.replace("SEEDS", ALL).replace("DATA", "Plain(22)")
    plain = "class Plain(Base):\n    def __getitem__(self, index):\n        return self.x[index]\n"
    script = script.replace("torch.manual_seed(0)\n", f"{plain}\n\ntorch.manual_seed(0)\n")
    assert "feed = dd.shard(DataLoader(data, batch_size=5, shuffle=True))" in added(
        tmp_path, script
    )
