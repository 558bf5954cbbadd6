"""Models that get their name from the call that trains them."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(22, 6), torch.randn(22, 3))


def make(width=8):
    return nn.Sequential(nn.Linear(6, width), nn.Tanh(), nn.Linear(width, 3))


def fit(model, epochs=2):
    loader = DataLoader(data, batch_size=5, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
        print(loss.item())
    return model


def twice(model):
    model = fit(model)
    return fit(model, 1)


"""
TRAINED = {
    "by_argument": "model = fit(make(4))\nstudent = make(5)\nfit(student)\n",
    "twice": "model = twice(make(4))\nother = twice(make(5))\n",
    "nested": "model = fit(fit(make(4)), 1)\nstudent = make(5)\nstudent = fit(student)\n",
    "by_keyword": "model = fit(epochs=1, model=make(4))\nmodel = fit(epochs=2, model=make(5))\n",
    "attribute": (
        "class Study:\n    def run(self):\n        self.teacher = fit(make(4))\n"
        "        self.student = make(5)\n        fit(self.student)\n\n\nStudy().run()\n"
    ),
}


@pytest.mark.parametrize("trained", TRAINED.values(), ids=TRAINED)
def test_they_are_wrapped_before_they_are_trained(trial: Trial, trained: str) -> None:
    verdict = trial.verdict(SCRIPT + trained)
    assert verdict.outcome is Outcome.SAME, verdict
