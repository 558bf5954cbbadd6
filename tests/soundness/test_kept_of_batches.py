"""What a loop keeps of each batch that a collate function of the script's own makes."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Batch:
    def __init__(self, samples):
        self.inputs, self.targets = torch.utils.data.default_collate(samples)
        self.count = len(samples)

    def __len__(self):
        return self.count


torch.manual_seed(70)
data = TensorDataset(torch.randn(14, 4), torch.randn(14, 4))
loader = DataLoader(data, batch_size=6, shuffle=True, collate_fn=Batch)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
kept = []
for epoch in range(2):
    for batch in loader:
        out = model(batch.inputs)
        loss = F.mse_loss(out, batch.targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kept.append(KEPT)
print(f"{READ:.6f}")
"""
KEPT = [
    ("(out.sum(0) / len(batch)).detach()", "torch.cat(kept).std()"),
    ("(out * len(batch)).detach()", "sum(k.double().sum().item() for k in kept)"),
]


@pytest.mark.parametrize(("kept", "read"), KEPT)
def test_what_is_kept_is_of_its_own_batch(trial: Trial, kept: str, read: str) -> None:
    verdict = trial.verdict(SCRIPT.replace("KEPT", kept).replace("READ", read))
    assert verdict.outcome is Outcome.SAME, verdict.detail
