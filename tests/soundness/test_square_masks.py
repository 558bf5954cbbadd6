"""Masks of positions by positions beside batches that are made by hand, at 2 and 3 ranks."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import torch
from torch import nn

torch.set_default_dtype(torch.float64)


def causal(n):
    return torch.tril(torch.ones(n, n))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(6, 6)

    def forward(self, x, mask):
        scores = (x @ x.transpose(1, 2)).masked_fill(mask == 0, -1e9)
        return self.out(scores.softmax(-1) @ x)


torch.manual_seed(0)
data, table = torch.randn(60, 6), torch.rand(60, 4, 4)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
{before}
for i in range(4):
    at = torch.randint(0, 50, (7,))
    x = torch.stack([data[k : k + 4] for k in at])
    {inside}
    loss = net(x, mask).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(i, loss.item())
"""
MASKS = [
    "torch.tril(torch.ones(4, 4))",
    "torch.triu(torch.full((4, 4), 2.0), diagonal=1) == 0",
    "~torch.triu(torch.ones(1, 4, 4), 1).bool()",
    "torch.ones(4, 4).tril().to(data.device)",
    "torch.eye(4)",
    "causal(4)",
]
WITH_ROWS = ["torch.tril(table[at])", "torch.tril(torch.ones(7, 4, 4)) * table[at]"]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("place", ["before", "inside"])
def test_a_mask_is_the_same_on_all_ranks(trial: Trial, mask: str, place: str) -> None:
    lines = {"before": "", "inside": "", place: f"mask = {mask}"}
    verdict = trial.verdict(SCRIPT.format(**lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("mask", WITH_ROWS)
def test_a_mask_for_each_sample_is_split_with_the_batch(trial: Trial, mask: str) -> None:
    verdict = trial.verdict(SCRIPT.format(before="", inside=f"mask = {mask}"))
    assert verdict.outcome is Outcome.SAME, verdict.detail
