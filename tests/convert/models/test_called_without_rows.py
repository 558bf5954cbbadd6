"""Models that get positions of all samples in training, and in sampling what is no batch."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Embedding(20, 16)
        self.inp, self.out = nn.Linear(2, 16), nn.Linear(16, 2)

    def forward(self, x, t):
        return self.out(torch.tanh(self.inp(x) + self.time(t)))


class Diffusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = Denoiser()
        self.register_buffer("scale", torch.linspace(0.1, 1, 20))

    def forward(self, x):
        t = torch.arange(x.shape[0]) * 7 % 20
        return ((PREDICT - x) ** 2).mean()

    @torch.no_grad()
    def sample(self, n):
        x = torch.ones(n, 2)
        for i in range(3):
            t = torch.full((n,), i, dtype=torch.long)
            x = x - 0.05 * self.model(x, t)
        return x


loader = DataLoader(TensorDataset(torch.randn(30, 2)), batch_size=8, shuffle=True)
diffusion = Diffusion()
optimizer = torch.optim.Adam(diffusion.parameters(), lr=0.01)
for epoch in range(2):
    for (x,) in loader:
        loss = diffusion(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item(), diffusion.sample(5).sum(0).tolist())
"""
CALLS = ["self.model(self.scale[t][:, None] * x, t)", "self.model(x, (t + 1) % 20)"]


@pytest.mark.parametrize("call", CALLS)
def test_positions_are_split_before_the_call_that_both_share(trial: Trial, call: str) -> None:
    verdict = trial.verdict(SCRIPT.replace("PREDICT", call))
    assert verdict.outcome is Outcome.SAME, verdict.detail
