"""Attributes of a model that a round of the training loop sets before it calls the model."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
data = TensorDataset(torch.randint(1, 20, (23, 7)), torch.randint(0, 3, (23,)))
loader = DataLoader(data, batch_size=6, shuffle=True)

class Net(nn.Module):
    def __init__(self, batch_size=6):
        super().__init__()
        self.batch_size = batch_size
        self.embed = nn.Embedding(20, 6)
        self.lstm = nn.LSTM(6, 8)
        self.head = nn.Linear(8, 3)
        self.hidden = self.begin()

    def begin(self):
        return torch.zeros(1, self.batch_size, 8), torch.zeros(1, self.batch_size, 8)

    def resize(self, x):
        self.batch_size = x.size(1)

    def forward(self, x):
        FORWARD

model, other = Net(), Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    ROUND
    loss = nn.functional.cross_entropy(out, y)
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.6f}")
"""
FORWARD = """\
e = self.embed(x).view(len(x), self.batch_size, -1)
out, self.hidden = self.lstm(e, self.hidden)
return self.head(out[-1])"""
BEGUN = FORWARD.replace("self.hidden)", "self.begin())")
SET = [
    (FORWARD, "model.batch_size = len(y)\nmodel.hidden = model.begin()\nout = model(x.t())"),
    (BEGUN, "model.batch_size = x.shape[0]\nx = x.t()\nout = model(x)"),
    (BEGUN, "model.batch_size = len(x)\nout = model(x.t())\nprint(model.batch_size)"),
    ("self.batch_size = x.size(1)\n" + BEGUN, "out = model(x.t())"),
    ("self.resize(x)\n" + BEGUN, "out = model(x.t())"),
    (BEGUN, "model.batch_size = 1\nmodel.resize(x.t())\nout = model(x.t())"),
]
# What may have been set since by another name, or by a function.
SET_SINCE = [
    "net = model\nmodel.batch_size = 1\nnet.batch_size = len(y)\nout = model(x.t())",
    "model.batch_size = 1\ndef fix():\n    model.batch_size = len(y)\nfix()\nout = model(x.t())",
    "model.batch_size = 1\nsetattr(model, 'batch_size', len(y))\nout = model(x.t())",
    "for net in (other, model):\n    net.batch_size = len(y)\nout = model(x.t())",
    "model.batch_size = len(y)\nfirst, model = model, other\nmodel.batch_size = len(y)\n"
    "first, model = model, first\nout = model(x.t())",
]


def test_a_forward_may_set_them_by_name(trial: Trial) -> None:
    forward = "self.batch_size = 1\nsetattr(self, 'batch_size', x.size(1))\n" + BEGUN
    verdict = trial.verdict(_script(forward, "out = model(x.t())"))
    assert verdict.outcome in (Outcome.SAME, Outcome.UNDIVIDED), verdict.detail


def _script(forward: str, lines: str) -> str:
    text = SCRIPT.replace("FORWARD", forward.replace("\n", "\n        "))
    return text.replace("ROUND", lines.replace("\n", "\n    "))


@pytest.mark.parametrize(("forward", "lines"), SET)
def test_they_are_what_the_round_has_set(trial: Trial, forward: str, lines: str) -> None:
    verdict = trial.verdict(_script(forward, lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("lines", SET_SINCE)
def test_what_is_set_since_is_not_forgotten(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(_script(BEGUN, lines))
    assert verdict.outcome in (Outcome.SAME, Outcome.UNDIVIDED), verdict.detail
