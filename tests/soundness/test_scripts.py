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
