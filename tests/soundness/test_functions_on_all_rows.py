"""Functions that get the rows of all ranks, and give rows that do not come first, or of several."""

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


def shuffled(a):
    p = a.detach().numpy().copy()
    np.random.RandomState(3).shuffle(p)
    return torch.from_numpy(p)


def under_each_other(a, b):
    return torch.cat([shuffled(a), b])


def behind(a, b):
    return shuffled(a).t()


def table(a, b, sizes):
    d = torch.zeros(4, len(a))
    for n in range(len(a)):
        for c in range(4):
            d[c, n] = torch.dist(a[n, c], b[n, c]) / sizes[n] if b[n, c] > 0 else -1
    return d


def share(distances):
    distances = distances[distances != -1]
    return (distances < 1).sum().item() / len(distances) if len(distances) > 0 else -1


def accuracy(a, b):
    d = table(a, b, torch.ones(a.size(0)) * 2)
    return sum(share(d[c]) for c in range(4))


torch.manual_seed(71)
data = TensorDataset(torch.randn(14, 4), torch.randn(14, 4))
loader = DataLoader(data, batch_size=6, shuffle=True)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for x, y in loader:
    out = model(x)
    r = RESULT
    loss = F.mse_loss(out, y) + r
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.6f}")
"""
RESULTS = [
    "(under_each_other(out * 1, y) * torch.cat([out, y])).mean()",
    "(behind(out * 1, y).t() * out).mean()",
    "out.mean() * accuracy(out, y)",
]


@pytest.mark.parametrize("result", RESULTS)
def test_each_rank_takes_its_own_of_the_right_ones(trial: Trial, result: str) -> None:
    verdict = trial.verdict(SCRIPT.replace("RESULT", result))
    assert verdict.outcome is Outcome.SAME, verdict.detail
