"""Names that a loop over another loader binds again, and that are read after it."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
inputs, labels = torch.randn(52, 6), torch.randint(0, 3, (52,))
loader = DataLoader(TensorDataset(inputs, labels), batch_size=8, shuffle=True)
val_loader = DataLoader(TensorDataset(inputs[:20], labels[:20]), batch_size=7)
model = nn.Linear(6, 6)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for data, target in loader:
        loss = ((model(data) - data) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for data, _ in val_loader:
        recon = model(data)
        BREAK
    READ
"""
READS = [
    "print(data.sum().item(), recon.std().item())",
    "print(loss.item(), recon[0, 0].item())",
    "torch.save(torch.cat([data[:3], model(data)[:3]]), f'{epoch}.pt')",
    "print([round(one.sum().item(), 6) for one in data[:4]], len(data))",
]


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("end", ["break", "data = data * 2"])
def test_they_hold_what_the_last_round_left(trial: Trial, read: str, end: str) -> None:
    verdict = trial.verdict(SCRIPT.replace("BREAK", end).replace("READ", read))
    assert verdict.outcome is Outcome.SAME, verdict.detail
