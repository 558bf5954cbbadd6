"""Losses that are changed in place, and read together with others."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(30, 6)
y = x[:, :4].argmax(1)
loader = DataLoader(TensorDataset(x, y), batch_size=7, shuffle=True)
model = nn.Linear(6, 4)
centers = nn.Linear(4, 3)
rule = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD([*model.parameters(), *centers.parameters()], lr=0.05)
weight = 0.3
for epoch in range(2):
    sums = [0.0, 0.0, 0.0]
    for a, b in loader:
        out = model(a)
        one = rule(out, b)
        other = centers(out).pow(2).SHAPE
        other CHANGE
        loss = one + other
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for i, v in enumerate((loss, one, other)):
            sums[i] += v.item()
    print(epoch, sums)
"""


@pytest.mark.parametrize("change", ["*= weight", "/= 3", "*= 1 + epoch"])
@pytest.mark.parametrize("shape", ["mean()", "sum(1).mean() / 2"])
def test_each_is_reduced_where_it_is_made(trial: Trial, change: str, shape: str) -> None:
    verdict = trial.verdict(SCRIPT.replace("CHANGE", change).replace("SHAPE", shape))
    assert verdict.outcome is Outcome.SAME, verdict.detail
