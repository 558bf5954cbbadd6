"""First states of a recurrent layer, as large as a batch that the script cuts out of a series."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import torch
import torch.nn as nn


def windows(data, steps):
    for start in range(0, data.size(1) - 1, steps):
        length = min(steps, data.size(1) - 1 - start)
        yield data[:, start : start + length], data[:, start + 1 : start + 1 + length]


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.LSTM(2, 12, batch_first=True), nn.Linear(12, 2)

    def forward(self, x, state):
        y, state = self.rnn(x, state)
        return self.out(y), state

    def first(self, size):
        weight = next(self.parameters())
        return MADE, MADE


torch.manual_seed(4)
time = torch.arange(0, 120) * 0.1
train = torch.stack([time.sin(), (2 * time).cos()], dim=1).double().view(5, 24, 2)
model = Forecaster()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    state = model.first(SIZE)
    for x, y in windows(train, 6):
        state = tuple(part.detach() for part in state)
        optimizer.zero_grad()
        out, state = model(x, state)
        loss = nn.functional.mse_loss(out, y)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
"""
STATES = [
    "torch.zeros(1, size, 12)",
    "weight.new_zeros(1, size, 12)",
    "weight.new_zeros((1, size, 12))",
    "weight.new_full((1, size, 12), 0.1)",
]


@pytest.mark.parametrize("made", STATES)
@pytest.mark.parametrize("size", ["train.size(0)", "len(train)", "5"])
def test_they_are_as_large_as_a_ranks_rows(trial: Trial, made: str, size: str) -> None:
    verdict = trial.verdict(SCRIPT.replace("MADE", made).replace("SIZE", size))
    assert verdict.outcome is Outcome.SAME, verdict
