"""Models whose own method trains them in the expression that makes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.convert.examples import added

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


def test_helpers_are_looked_into_once_however_many_ways_lead_there(tmp_path: Path) -> None:
    chain = "".join(f"def f{end}(number):\n    return number + 1\n\n\n" for end in (0, 1))
    for depth in range(2, 30):
        both = f"f{depth - 1}(number) + f{depth - 2}(number)"
        chain += f"def f{depth}(number):\n    return {both}\n\n\n"
    ready = "    def ready(self):\n        print(f29(1))\n        return self\n\n    def fit"
    script = SCRIPT.replace("class Coder", f"{chain}class Coder").replace("    def fit", ready)
    lines = added(tmp_path, script + "coder = Coder(6, 3).ready().fit(features)\n")
    assert "coder = dd.wrap(Coder(6, 3).ready()).fit(features)" in lines
