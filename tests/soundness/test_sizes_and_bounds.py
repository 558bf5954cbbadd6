"""The batch size among what a draw is given: as its size, as a bound, or as what fills it."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

batch_size = 6
torch.manual_seed(0)
np.random.seed(0)
rng = np.random.default_rng(3)
torch.set_default_dtype(torch.float64)
data = TensorDataset(torch.randn(24, 5), torch.randn(24, 4))
loader = DataLoader(data, batch_size=batch_size, shuffle=True, drop_last=True)
model = nn.Linear(5, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    total = 0
    for x, y in loader:
        out = model(x)
        loss = F.mse_loss(out, y)
        LINE
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(epoch, total)
"""
WEIGHTED = "\nloss = loss + (out * torch.as_tensor(w)).mean()"
PICKED = "\nloss = loss + out[i].pow(2).sum() / 10"
BOUNDS = [
    f"i = np.random.randint(0, batch_size, 4){PICKED}",
    f"i = torch.randint(0, batch_size, (12,)){PICKED}",
    f"i = torch.randint(batch_size, (3,)){PICKED}",
    f"i = np.random.choice(batch_size, 3){PICKED}",
    f"w = np.random.uniform(0, batch_size, (4,)){WEIGHTED}",
    f"w = torch.full((4,), batch_size) * 1.0{WEIGHTED}",
    f"i = rng.integers(0, batch_size, 4){PICKED}",
    f"w = rng.uniform(0, batch_size, (4,)){WEIGHTED}",
]
BOTH = [
    f"i = torch.randint(0, batch_size, (batch_size,)){PICKED}",
    f"i = np.random.randint(0, batch_size, batch_size){PICKED}",
    "i = np.random.choice(batch_size, batch_size, replace=False)\n"
    "loss = loss + F.mse_loss(out[i], y)",
]
SIZES = [
    f"w = torch.randint(5, (batch_size, 4)).double(){WEIGHTED}",
    f"w = np.random.normal(0, 1, size=(batch_size, 4)){WEIGHTED}",
    f"w = torch.normal(0.0, 1.0, (batch_size, 4)){WEIGHTED}",
    f"w = torch.full((batch_size, 1), 0.5){WEIGHTED}",
    f"w = np.random.choice([0.5, 1.5], (batch_size, 4)){WEIGHTED}",
    f"w = np.random.binomial(1, 0.5, (batch_size, 1)){WEIGHTED}",
    f"w = np.random.beta(0.4, 0.4, size=(batch_size, 1)){WEIGHTED}",
    f"w = np.random.exponential(1.0, (batch_size, 1)){WEIGHTED}",
    f"w = np.random.poisson(2.0, (batch_size, 1)){WEIGHTED}",
    f"w = np.random.triangular(0, 1, 2, (batch_size, 4)){WEIGHTED}",
    f"w = rng.integers(0, 5, (batch_size, 1)){WEIGHTED}",
    f"w = rng.standard_normal((batch_size, 4)){WEIGHTED}",
    f"w = rng.poisson(2.0, size=(batch_size, 1)){WEIGHTED}",
    f"w = np.random.RandomState(epoch).rand(batch_size, 4){WEIGHTED}",
    "i = rng.permutation(batch_size)\nloss = loss + F.mse_loss(out[i], y)",
]


@pytest.mark.parametrize("lines", BOUNDS)
def test_a_bound_makes_nothing_as_large_as_the_batch(trial: Trial, lines: str) -> None:
    assert_same(trial, lines)


@pytest.mark.parametrize("lines", [*BOTH, *SIZES])
def test_a_size_does(trial: Trial, lines: str) -> None:
    assert_same(trial, lines)


def assert_same(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(SCRIPT.replace("LINE", lines.replace("\n", "\n        ")))
    assert verdict.outcome is Outcome.SAME, verdict.detail
