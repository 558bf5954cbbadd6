"""Batch normalisation of what all ranks hold, when the batches of a split loader have gone by."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from ddpify.convert import convert_file

SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(13, 4), torch.randn(13, 3))
loader = DataLoader(data, batch_size=5, shuffle=True)
fixed = torch.randn(6, 4)
model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def shown(inputs):
    with torch.no_grad():
        return model(inputs)


for epoch in range(2):
    for inputs, targets in loader:
        loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    {lines}
    print([round(held.double().norm().item(), 9) for held in model.buffers()])
"""
IN_TRAINING_MODE = [
    "print(model(fixed).sum().item())",
    "print(shown(fixed)[0, 0].item())",
    "print(shown(torch.zeros(1, 4).expand(6, 4) + fixed).std().item())",
    "model.eval(); model.train(); print(shown(fixed).mean().item())",
]


def _written(lines: str) -> str:
    return SCRIPT.replace("{lines}", lines.replace("; ", "\n    "))


@pytest.mark.parametrize(
    "lines", [*IN_TRAINING_MODE, "model.eval(); print(shown(fixed)); model.train()"]
)
def test_the_statistics_are_those_of_one_process(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(_written(lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


def test_a_model_that_goes_by_its_own_statistics_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(_written("model.eval(); print(model(fixed)); model.train()"))
    assert "dd.spread" not in convert_file(path).data.decode()
