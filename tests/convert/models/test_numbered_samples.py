"""Layers of a model that get the numbers of its samples: those among all samples of the batch."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Embedding(20, 16)
        self.steps = nn.Sequential(nn.Linear(1, 16), nn.Tanh())
        self.inp, self.out = nn.Linear(2, 16), nn.Linear(16, 2)

    def inner(self, x, t):
        return self.inp(x) + self.time(t)

    def forward(self, x):
        t = torch.arange(x.shape[0])
        return self.out(torch.tanh(HIDDEN))


loader = DataLoader(TensorDataset(torch.randn(30, 2)), batch_size=8, shuffle=True)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(2):
    for (x,) in loader:
        loss = ((net(x) - x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
"""
HIDDEN = [
    "self.inp(x) + self.time(t)",
    "self.inp(x) + self.time((t * 7 + 1) % 20)",
    "self.inp(x) + self.steps(t[:, None].to(x.dtype))",
    "self.inp(x) * self.steps(input=t.unsqueeze(1) / 20)",
    "self.inner(x, t)",
]


@pytest.mark.parametrize("hidden", HIDDEN)
def test_a_layer_gets_numbers_among_all_samples(trial: Trial, hidden: str) -> None:
    verdict = trial.verdict(SCRIPT.replace("HIDDEN", hidden))
    assert verdict.outcome is Outcome.SAME, verdict.detail
