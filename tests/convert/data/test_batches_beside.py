"""Batches made by hand that enter a model together: they are taken for rows of the same samples."""

from __future__ import annotations

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 4), nn.Linear(2, 4)

    def forward(self, x, other):
        return self.a(x) + USED


torch.manual_seed(0)
data = torch.randn(60, 6)
net = Net()
rule = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    x = data[torch.randint(0, 60, (7,))]
    loss = net(x, OTHER).pow(2).sum() / len(x)
    rule.zero_grad()
    loss.backward()
    rule.step()
    print(loss.item())
"""


def test_as_many_rows_of_each(trial: Trial) -> None:
    text = SCRIPT.replace("USED", "self.b(other)").replace("OTHER", "x[:, :2] * 2")
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail


def test_what_has_no_row_for_each_sample_ends_the_run(trial: Trial) -> None:
    text = SCRIPT.replace("USED", "0").replace("OTHER", "torch.ones(2)")
    verdict = trial.verdict(text)
    assert "2 rows enter a model beside a batch of 7" in verdict.detail
