"""Models that are trained on noise that no batch gives: of a size of its own, or drawn again."""

from __future__ import annotations

import textwrap

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
size = 6
rows = torch.randn(22, 4)
loader = DataLoader(TensorDataset(rows, torch.arange(22) % 3), batch_size=size, drop_last=True)


class Noise:
    def __init__(self):
        self.z = torch.zeros(6, 3)

    def sample(self):
        self.z.normal_()


def draw(z):
    z.data.normal_(0, 1)


class Maker(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two, self.norm = nn.Linear(3, 5), nn.Linear(5, 4), nn.BatchNorm1d(5)

    def forward(self, z, scale=1.0):
        h = torch.tanh(self.norm(self.one(z)))
        return MADE


maker = Maker()
judge = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))
made = torch.optim.SGD(maker.parameters(), lr=0.1)
judged = torch.optim.SGD(judge.parameters(), lr=0.1)
BEFORE
for epoch in range(2):
    for x, y in loader:
        DRAWN
        fake = maker(z)
        judged.zero_grad()
        loss = F.softplus(-judge(x)).mean() + F.softplus(judge(fake.detach())).mean()
        loss.backward()
        judged.step()
        made.zero_grad()
        fooled = F.softplus(-judge(fake)).mean()
        fooled.backward()
        made.step()
        print(f"{loss.item():.6f} {fooled.item():.6f}")
print([round(held.double().norm().item(), 9) for held in maker.buffers()])
"""
DRAWN = [
    ("z = torch.zeros(size, 3)", "z.normal_()"),
    ("kept = torch.zeros(size, 3)", "z = kept.normal_()"),
    ("z = torch.randn(size, 3)", "pass"),
    ("", "z = torch.randn(6, 3)"),
    ("", "z = torch.empty(6, 3).normal_()"),
    ("", "z = torch.zeros(6, 3); z.data.normal_()"),
    ("count = 6", "z = torch.randn(count, 3)"),
    ("z = torch.zeros(6, 3)", "z.normal_()"),
    ("z = torch.zeros(6, 3).double()", "z.data.normal_(0, 1)"),
    ("z = torch.zeros(6, 3)", "draw(z)"),
    ("z = torch.zeros(8, 3)", "z.data.uniform_(-1, 1); z.data.mul_(2)"),
    ("noise = Noise()", "noise.sample(); z = noise.z"),
]
MADE = [
    "self.two(h)",
    "self.two(h - h.mean(0))",
    "self.two(h) / h.std()",
    "self.two(h[torch.arange(len(h)).flip(0)])",
]
SCALED = [
    ("0.5", "self.two(h) * scale"),
    ("torch.rand(6, 1)", "self.two(h) * scale"),
    ("torch.rand(4)", "self.two(h) * scale"),
    ("torch.rand(6, 6)", "scale @ self.two(h)"),
    ("scale=torch.rand(6, 6)", "scale @ self.two(h)"),
]


def _written(before: str, drawn: str, made: str = MADE[0]) -> str:
    lines = textwrap.indent(drawn.replace("; ", "\n"), " " * 8).lstrip()
    return SCRIPT.replace("BEFORE", before).replace("DRAWN", lines).replace("MADE", made)


def _same(trial: Trial, script: str) -> None:
    verdict = trial.verdict(script)
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize(("before", "drawn"), DRAWN)
def test_a_generator_learns_the_same(trial: Trial, before: str, drawn: str) -> None:
    _same(trial, _written(before, drawn))


@pytest.mark.parametrize("made", MADE[1:])
def test_one_that_mixes_its_rows_computes_them_whole(trial: Trial, made: str) -> None:
    _same(trial, _written(*DRAWN[0], made))


@pytest.mark.parametrize(("scale", "made"), SCALED)
def test_what_comes_beside_the_noise(trial: Trial, scale: str, made: str) -> None:
    _same(trial, _written(*DRAWN[0], made).replace("maker(z)", f"maker(z, {scale})"))


@pytest.mark.parametrize(
    "loss",
    [
        "sum(p.pow(2).sum() for p in maker.parameters())",  # no forward to be shared
        "maker.two(torch.tanh(torch.randn(5))).pow(2).mean()",  # of one sample
    ],
)
def test_a_loss_that_no_rank_can_share_is_refused(trial: Trial, loss: str) -> None:
    script = _written(*DRAWN[3]).replace("F.softplus(-judge(fake)).mean()", loss)
    verdict = trial.verdict(script)
    assert verdict.outcome is Outcome.REFUSED, verdict.detail
    assert "every rank would do all of the work" in verdict.detail


SUMMED = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def collate(samples):
    inputs, targets = (torch.stack(part) for part in zip(*samples))
    return torch.nansum(inputs, dim=0), targets

torch.manual_seed(0)
data = TensorDataset(torch.randn(14, 4), torch.randn(14, 4))
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for inputs, targets in DataLoader(data, batch_size=6, collate_fn=collate):
    loss = F.mse_loss(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""


def test_what_may_be_one_sample_is_not_shared(trial: Trial) -> None:
    verdict = trial.verdict(SUMMED)
    assert verdict.outcome is Outcome.REFUSED, verdict.detail
