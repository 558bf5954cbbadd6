"""What a forward adds up in a loop over its samples: each rank adds up its own."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(2)
loader = DataLoader(TensorDataset(torch.randn(23, 4), torch.randn(23, 4)), batch_size=6)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(4, 4)

    def forward(self, x, y):
        h, s, t = self.one(x), 0, 0
        LINES

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = model(x, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.6f}")
"""
ADDED = [
    "for i, goal in enumerate(y):\n    s = s + F.mse_loss(h[i], goal)\nreturn s / len(y)",
    "for i in range(len(y)):\n    s += F.mse_loss(h[i], y[i])\nreturn s / x.size(0)",
    "for i in range(len(y)):\n    s = F.mse_loss(h[i], y[i]) + s\n    t += y[i].abs().mean()\n"
    "return s / t",
    "for i in range(len(y)):\n    for j in range(3):\n        s = s + F.mse_loss(h[i], y[i]) * j\n"
    "return (s / len(y)) ** 2",
    "for i in range(len(y)):\n    s = s + h[i] * y[i]\nreturn (s / len(y)).pow(2).mean()",
]
# What is no sum, or not of each sample.
OTHERS = [
    "for i in range(len(y)):\n    s = s * 0.9 + F.mse_loss(h[i], y[i])\nreturn s / len(y)",
    "for i in range(len(y)):\n    s = s + F.mse_loss(h[i], y[i])\n    if i > 2:\n        break\n"
    "return s / len(y)",
    "for i in range(len(y)):\n    s = s + F.mse_loss(h[i], y[i]) + 0.1\nreturn s / len(y)",
]


def _script(lines: str) -> str:
    return SCRIPT.replace("LINES", lines.replace("\n", "\n        "))


@pytest.mark.parametrize("lines", ADDED)
def test_they_are_added_up_over_the_ranks(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(_script(lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("lines", OTHERS)
def test_what_is_no_sum_of_all_samples(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(_script(lines))
    assert verdict.outcome in (Outcome.SAME, Outcome.UNDIVIDED), verdict.detail
