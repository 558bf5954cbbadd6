"""Loaders, and what else a dictionary holds, by a name of which the texts are known."""

from __future__ import annotations

import textwrap

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def rows(count):
    return TensorDataset(torch.randn(count, 4), torch.randn(count, 4))


torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
MADE
use = len(sys.argv) < 2
if use:
    loaders["more"] = DataLoader(rows(30), batch_size=4, drop_last=True)
    others = enumerate(loaders["more"])
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
history = {"train": [], "val": []}
for epoch in range(2):
    NAMED
        total = count = 0
        for x, y in loaders[phase]:
            optimizer.zero_grad()
            size, width = x.shape
            loss = F.mse_loss(model(x), y)
            if use and phase == "train" and epoch > 0:
                try:
                    _, batch = others.__next__()
                except StopIteration:
                    others = enumerate(loaders["more"])
                    _, batch = others.__next__()
                u, v = batch
                loss = loss + 0.1 * F.mse_loss(model(u), v)
            if phase == "train":
                loss.backward()
                optimizer.step()
            total += loss.item() * size
            count += size
            history[phase].append(loss.item())
        print(phase, f"{total / count:.6f} {sum(history[phase]):.6f}")
"""
MADE = [
    'loaders = {x: DataLoader(rows(22), 6, drop_last=True) for x in ["train", "val"]}',
    'loaders = {"train": DataLoader(rows(22), 6, drop_last=True), "val": DataLoader(rows(9), 6)}',
    'loaders = {}\nloaders["train"] = DataLoader(rows(22), batch_size=6, shuffle=True)\n'
    'loaders["val"] = DataLoader(rows(13), batch_size=5)',
    'loaders = {}\nfor name in ["train", "val"]:\n'
    "    loaders[name] = DataLoader(rows(22), 6, drop_last=True)",
]
NAMED = [
    'for phase in ["train", "val"]:',
    'for phase in ("train", "val", "train"):',
    'for number in range(2):\n    phase = "val" if number else "train"',
]


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("named", NAMED)
def test_other_loaders_of_the_dictionary_are_not_read(trial: Trial, made: str, named: str) -> None:
    script = SCRIPT.replace("MADE", made)
    script = script.replace("NAMED", textwrap.indent(named, "    ").lstrip())
    verdict = trial.verdict(script)
    assert verdict.outcome is Outcome.SAME, verdict.detail
