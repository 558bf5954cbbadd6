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


PAIRS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.user, self.item = nn.Embedding(5, 4), nn.Embedding(7, 4)

    def forward(self, users, items):
        return (self.user(users) * self.item(items)).sum(-1)


def drawn(users):
    return torch.tensor([(3 * user + place) % 7 for place, user in enumerate(users.tolist())])


users, items = torch.arange(22) % 5, torch.arange(22) % 7
loader = DataLoader(TensorDataset(users, items), batch_size=6, shuffle=True)
model = Pair()
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
for epoch in range(2):
    for u, i in loader:
        j = drawn(u)
        SCORED
        loss = -nn.functional.logsigmoid(good - bad).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
"""


def test_rows_of_all_ranks_are_split_before_a_model_that_gets_a_ranks_own_too(trial: Trial) -> None:
    verdict = trial.verdict(PAIRS.replace("SCORED", "good, bad = model(u, i), model(u, j)"))
    assert verdict.outcome is Outcome.SAME, verdict


def test_one_line_with_both_is_refused(trial: Trial) -> None:
    verdict = trial.verdict(PAIRS.replace("SCORED", "good, bad = [model(u, k) for k in (i, j)]"))
    assert verdict.outcome is Outcome.REFUSED, verdict
