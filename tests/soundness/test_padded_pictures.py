"""A shortcut that pads the channels of pictures works on each sample, however it was made."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Shortcut(nn.Module):
    def __init__(self, given):
        super().__init__()
        self.given = given

    def forward(self, x):
        return self.given(x)


class Block(nn.Module):
    def __init__(self, first, last, stride):
        super().__init__()
        self.conv = nn.Conv2d(first, last, 3, stride=stride, padding=1)
        self.shortcut = nn.Sequential()
        if stride != 1:
            self.shortcut = Shortcut(lambda x: SHORTCUT)

    def forward(self, x):
        out = self.conv(x)
        out += self.shortcut(x)
        return torch.tanh(out)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = self.made(4, 4, 1), self.made(4, 8, 2)
        self.last = nn.Linear(8, 3)

    def made(self, first, last, stride):
        layers = []
        for step in [stride, 1]:
            layers.append(Block(first, last, step))
            first = last
        return nn.Sequential(*layers)

    def forward(self, x):
        return self.last(self.second(self.first(x)).mean((2, 3)))


torch.manual_seed(0)
x, k = torch.randn(14, 4, 8, 8), torch.randint(0, 3, (14,))
loader = DataLoader(TensorDataset(x, k), batch_size=6, shuffle=True)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, k in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), k)
    loss.backward()
    optimizer.step()
    print(loss.item())
"""


@pytest.mark.parametrize(
    "shortcut",
    [
        "F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, last // 4, last // 4))",
        "F.layer_norm(x[:, :, ::2, ::2], (4, 4, 4)).repeat(1, 2, 1, 1)",
    ],
)
def test_slices_tell_how_many_dimensions_there_are(trial: Trial, shortcut: str) -> None:
    verdict = trial.verdict(SCRIPT.replace("SHORTCUT", shortcut))
    assert verdict.outcome is Outcome.SAME, verdict.detail
