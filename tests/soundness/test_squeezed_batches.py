"""A collate function that drops the dimensions of size one, where a rank has a single row."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def collate(samples):
    inputs = torch.stack([sample[0] for sample in samples])
    targets = torch.stack([sample[1] for sample in samples])
    return inputs, TARGETS


torch.manual_seed(0)
data = TensorDataset(torch.randn(11, 4), torch.randn(11, 1))
loader = DataLoader(data, batch_size=4, shuffle=True, collate_fn=collate)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    for inputs, targets in loader:
        loss = nn.functional.mse_loss(model(inputs)[:, 0], targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.6f}", len(targets))
"""


@pytest.mark.parametrize(
    "targets",
    [
        "targets.squeeze()",
        "torch.squeeze(targets)",
        "targets.unsqueeze(0).squeeze()",
        "torch.from_numpy(np.squeeze(targets.numpy()))",
        "targets.squeeze(1)",
    ],
)
def test_rows_of_one_sample_stay_rows(trial: Trial, targets: str) -> None:
    verdict = trial.verdict(SCRIPT.replace("TARGETS", targets))
    assert verdict.outcome is Outcome.SAME, verdict.detail
