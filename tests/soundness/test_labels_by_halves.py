"""Labels for halves of a batch, or for several tensors under each other, in lists and tensors.

Each rank's first rows are not the first of the global batch.
"""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(61)
data = TensorDataset(torch.randn(14, 4), torch.randn(14, 4))
loader = DataLoader(data, batch_size=6, shuffle=True)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    for x, y in loader:
        out = model(x)
        both = torch.cat([out, y])
        n = len(x)
        LINES
        loss = F.mse_loss(out, y) + r.double().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.6f}")
"""
HALVES = [
    "t = torch.tensor([1.0] * (n // 2) + [0.0] * (n - n // 2)); r = t * out[:, 0]",
    "t = torch.cat([torch.ones(n // 2), torch.zeros(n - n // 2)]); r = t * out[:, 0]",
    "t = torch.tensor([0.0, 1.0] * (n // 2) + [2.0] * (n % 2)); r = t * out[:, 0]",
    "h = len(both) // 2; t = np.array([[1]] * h + [[0]] * h)\n"
    "        r = (both.softmax(0) * torch.from_numpy(t)).sum()",
]
LABELS = [
    "t = torch.full((n // 2,), 2.0); r = (out[: n // 2, 0] * t).sum()",
    "h = int(0.5 * n); t = [1.0] * h + [0.0] * (n - h); r = torch.tensor(t[::-1]) * out[:, 0]",
    "t = [1.0] * n + [2.0]; r = sum(t) * out[:, 0]",
    "t = ['a'] * (n // 2) + ['b'] * (n - n // 2)\n"
    "        r = torch.stack([o.sum() * (2 if w == 'a' else 1) for o, w in zip(out, t)])",
    "t = torch.tensor([1.0] * n + [0.0] * n); r = (both[:, 0] * t).softmax(0).max()",
    "t = [0.5] * n + [1.0] * n; r = (both[:, 0] * torch.tensor(t)).logsumexp(0)",
]


@pytest.mark.parametrize("lines", HALVES + LABELS)
def test_labels_stand_beside_their_rows(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(SCRIPT.replace("LINES", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
