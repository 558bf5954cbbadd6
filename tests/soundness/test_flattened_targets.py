"""Targets of a batch made by hand that are laid out in one line: they go by the samples."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
np.random.seed(0)
data = np.random.randint(0, 5, (8, 40))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn = nn.Embedding(5, 6), nn.GRU(6, 8, batch_first=True)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(self.rnn(self.embed(x))[0].contiguous().view(-1, 8))

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for n in range(0, 30, 10):
    x, y = torch.from_numpy(data[:, n:n + 10]), torch.from_numpy(data[:, n + 1:n + 11])
    loss = nn.functional.cross_entropy(model(x), y.VIEW)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.6f}")
"""
VIEWS = [
    "reshape(-1)",
    "reshape(80)",
    "reshape(8 * 10).long()",
    "reshape(len(y) * 10)",
    "reshape(x.numel())",
]


@pytest.mark.parametrize("view", VIEWS)
def test_each_rank_takes_those_of_its_samples(trial: Trial, view: str) -> None:
    verdict = trial.verdict(SCRIPT.replace("VIEW", view))
    assert verdict.outcome is Outcome.SAME, verdict.detail
