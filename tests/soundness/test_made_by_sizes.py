"""Tensors that are made by sizes given one by one, and views by sizes of the script's own."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

MADE = [
    "h = h * torch.Tensor(1, len(inputs), 4).fill_(2)[0]",
    "h = h + (h * torch.Tensor(3, len(inputs), 4).fill_(2)).sum(0).mean(1, keepdim=True)",
    "h = h * (h * torch.DoubleTensor(1, len(inputs), 4).fill_(2).sum(1)).mean()",
    "h = h * self.table.new(len(inputs), 4).fill_(2)",
    "h = h + next(self.parameters()).data.new(2, len(inputs), 4).fill_(1).sum(0)",
    "h = h + inputs.new(len(inputs), 1).fill_(2)",
]
# Two batches of six samples, the last time step of which goes on.
SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
data = TensorDataset(torch.randn(12, 7, 4), torch.randn(12, 8))
loader = DataLoader(data, batch_size=6, shuffle=True)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(4, 8)

    def forward(self, x):
        x = x.transpose(0, 1)
        out, h = self.rnn(x)
        return VIEW

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.6f}")
"""
VIEWS = [
    "h.view(6, 8)",
    "h.view(6, -1)",
    "out.reshape(7, 6, -1)[-1]",
    "out.reshape(7, 6, 8)[-1]",
    "out[-1] + out.reshape(7, 6, -1).sum(2, keepdim=True).sum(0)",
]


@pytest.mark.parametrize("line", MADE)
def test_their_rows_lie_where_the_sizes_say(trial: Trial, line: str) -> None:
    verdict = trial.verdict(script("forward", line))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_by_numbers_is_one_of_all_rows(trial: Trial, view: str) -> None:
    verdict = trial.verdict(SCRIPT.replace("VIEW", view))
    assert verdict.outcome in (Outcome.SAME, Outcome.UNDIVIDED), verdict.detail
