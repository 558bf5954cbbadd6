"""Models whose own method trains them in the expression that makes them."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
features = torch.randn(22, 6)


class Coder(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, hidden), nn.Linear(hidden, width))

    def forward(self, x):
        return self.layers(x)

    def fit(self, rows, epochs=2):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        for epoch in range(epochs):
            for x in DataLoader(rows, batch_size=5, shuffle=True):
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(self(x), x)
                loss.backward()
                optimizer.step()
            print(loss.item())
        return self


"""
FITTED = {
    "named_afterwards": "coder = Coder(6, 3).fit(features)\n",
    "without_a_name": "Coder(6, 3).fit(features)\n",
    "in_a_function": "def main():\n    Coder(6, 3).fit(features)\n\n\nmain()\n",
    "twice": "coder = Coder(6, 3).train().fit(features).fit(features, 1).eval()\n",
    "in_a_list": "coders = [Coder(6, n).fit(features) for n in (2, 3)]\n",
    "in_a_loop": "coders = []\nfor n in (2, 3):\n    coders.append(Coder(6, n).fit(features))\n",
    "returned": "def made():\n    return Coder(6, 3).fit(features)\n\n\ncoder = made()\n",
}


@pytest.mark.parametrize("fitted", FITTED.values(), ids=FITTED)
def test_they_are_wrapped_before_they_are_trained(trial: Trial, fitted: str) -> None:
    verdict = trial.verdict(SCRIPT + fitted)
    assert verdict.outcome is Outcome.SAME, verdict
