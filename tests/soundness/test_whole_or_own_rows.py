"""Rows for a whole batch that are kept before the loop, or else made of each batch."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
kept = len(sys.argv) COMPARED 1
size = 6
data = TensorDataset(torch.rand(22, 4), torch.rand(22, 4))
loader = DataLoader(data, batch_size=size, drop_last=True)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def limited(z, low, high):
    return torch.max(torch.min(z, high), low)


if kept:
    delta = torch.rand(size, 4)
for epoch in range(2):
    for x, y in loader:
        if not kept:
            delta = torch.rand(len(x), 4)
        loss = LOSS
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.6f}")
"""


@pytest.mark.parametrize("compared", [">=", "<"])
@pytest.mark.parametrize(
    "loss",
    [
        "F.mse_loss(model(x + delta[: len(x)]), y)",
        "F.mse_loss(model(x + delta), y)",
        "F.mse_loss(model(x + delta[: x.size(0)] * 2), y)",
        "F.mse_loss(model(x + limited(delta, x - 0.1, x + 0.1)), y)",
        "F.mse_loss(model(x) * torch.where(x > 0, delta, y), y)",
        "F.mse_loss(model(torch.cat([x, delta])), torch.cat([y, y]))",
    ],
)
def test_each_rank_takes_its_own_of_either(trial: Trial, compared: str, loss: str) -> None:
    verdict = trial.verdict(SCRIPT.replace("COMPARED", compared).replace("LOSS", loss))
    assert verdict.outcome is Outcome.SAME, verdict.detail
