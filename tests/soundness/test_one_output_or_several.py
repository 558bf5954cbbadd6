"""Models that give a tensor or a list of them, by an option, and a loss that is not seen."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import importlib, os
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

unseen = getattr(importlib.import_module(os.environ.get("PLACE", "torch.nn.functional")), NAME)


class Overlap(nn.Module):
    def forward(self, input, target):
        num = target.size(0)
        input = torch.sigmoid(input).view(num, -1)
        target = target.view(num, -1)
        return 1 - (input * target).sum(1).sum() / num


class Margin(nn.Module):
    def forward(self, input, target):
        return unseen(input.squeeze(1), target.squeeze(1))


class Net(nn.Module):
    def __init__(self, deep):
        super().__init__()
        self.deep = deep
        self.first = nn.Conv2d(2, 3, 3, padding=1)
        self.second = nn.Conv2d(3, 1, 1)
        self.third = nn.Conv2d(3, 1, 1)

    def forward(self, x):
        x = self.first(x).relu()
        if self.deep:
            return [self.second(x), self.third(x)]
        return self.second(x)


torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
deep = bool(os.environ.get("DEEP", DEEP))
criterion = Margin() if os.environ.get("MARGIN", MARGIN) else Overlap()
net = Net(deep)
rule = torch.optim.SGD(net.parameters(), lr=0.1)
data = TensorDataset(torch.randn(22, 2, 4, 4), torch.rand(22, 1, 4, 4).round())
for x, y in DataLoader(data, batch_size=7, shuffle=True):
    if deep:
        outs = net(x)
        loss = 0
        for out in outs:
            loss += criterion(out, y)
        loss /= len(outs)
    else:
        out = net(x)
        loss = criterion(out, y)
    rule.zero_grad()
    loss.backward()
    rule.step()
    print(loss.item())
"""


@pytest.mark.parametrize("margin", ["", "1"])
@pytest.mark.parametrize("deep", ["", "1"])
def test_each_loss_of_either_is_that_of_the_batch(trial: Trial, deep: str, margin: str) -> None:
    name = 'os.environ.get("LOSS", "binary_cross_entropy_with_logits")'
    text = SCRIPT.replace("NAME", name)
    text = text.replace('"DEEP", DEEP', f'"DEEP", "{deep}"')
    text = text.replace('"MARGIN", MARGIN', f'"MARGIN", "{margin}"')
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail


def test_only_the_loss_that_is_not_seen_gets_the_rows_of_all_ranks(trial: Trial) -> None:
    text = SCRIPT.replace("NAME", '"l1_" + os.environ["LOSS"]')
    text = text.replace(", DEEP", ', ""').replace(", MARGIN", ', ""')
    converted = trial.converted(text)
    assert isinstance(converted, str)
    assert converted.count("dd.gather") == 2
    assert "unseen(dd.gather(input.squeeze(1)), dd.gather(target.squeeze(1)))" in converted
