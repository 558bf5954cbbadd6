"""Data sets that change the samples that they hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.convert.examples import convert_text

SCRIPT = """\
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


class Data(Dataset):
    def __init__(self):
        self.samples = [{"x": torch.randn(4), "y": torch.randn(1)} for _ in range(22)]
        self.pairs = [[torch.randn(4), torch.randn(1)] for _ in range(22)]
        self.table, self.kept = torch.randn(22, 4), {}
        self.inner = TensorDataset(torch.randn(22, 4))

    def __len__(self):
        return 22

    def __getitem__(self, i):
GET
        return {"x": x, "y": torch.ones(1)}


loader = DataLoader(Data(), batch_size=4, shuffle=TrueWORKERS)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for batch in loader:
        loss = nn.functional.mse_loss(model(batch["x"]), batch["y"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.6f}")
"""
CHANGED = [
    's = self.samples[i]\ns["x"] = s["x"] * 0.5\nx = s["x"]',
    's = self.samples[i]\nhalf = s["x"] * 0.5\ns["x"] = half\nx = s["x"]',
    's = self.samples[i]\ns["y"] = s["x"].flip(0)\ns["x"] = 0.5 * s["y"]\nx = s["x"]',
    'self.samples[i]["x"] = self.samples[i]["x"] - 1\nx = self.samples[i]["x"]',
    "x = self.table[i]\nx -= x.mean() - 0.1",
    "x = self.table[i]\nx.mul_(0.5)",
    "self.table[i] = self.table[i] * 0.5\nx = self.table[i]",
    "x, y = self.pairs[i]\nx *= 0.5",
    's = self.samples[i]\ns["x"] = s.get("x") * 0.5\nx = s["x"]',
    "p = self.pairs[i]\np.append(1)\nx = p[0] * len(p)",
]
THE_SAME = [
    's = self.samples[i]\ns["z"] = s["x"] * 0.5\nx = s["z"]',
    's = dict(self.samples[i])\ns["x"] = s["x"] * 0.5\nx = s["x"]',
    's = copy.deepcopy(self.samples[i])\ns["x"] *= 0.5\nx = s["x"]',
    "x = self.kept.get(i)\nif x is None:\n    x = self.table[i] * 0.5\n    self.kept[i] = x",
    "if i not in self.kept:\n    self.kept[i] = self.table[i] * 0.5\nx = self.kept[i]",
    "x = self.table[i].clone()\nx -= x.mean()",
    "x = list(self.inner[i])\nx[0] = x[0] * 0.5\nx = x[0]",
]


def script(get: str, workers: str = "") -> str:
    lines = "\n".join(f"        {line}" for line in get.splitlines())
    return SCRIPT.replace("GET", lines).replace("WORKERS", workers)


@pytest.mark.parametrize("get", CHANGED)
def test_every_rank_takes_samples_that_are_changed_each_time(trial: Trial, get: str) -> None:
    verdict = trial.verdict(script(get))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("get", THE_SAME)
def test_samples_that_stay_the_same_are_taken_by_one_rank(tmp_path: Path, get: str) -> None:
    assert b'collate="global"' not in convert_text(tmp_path, script(get)).data


def test_workers_begin_each_epoch_with_samples_as_they_were(tmp_path: Path) -> None:
    anew = convert_text(tmp_path, script(CHANGED[0], ", num_workers=2"))
    assert b'collate="global"' not in anew.data
    kept = ", num_workers=2, persistent_workers=True"
    assert b'collate="global"' in convert_text(tmp_path, script(CHANGED[0], kept)).data
