"""The size of what is computed across samples, asked for alone: nothing else has it gathered."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

SIZES = [
    "s = out @ out.t(); r = (out * s.size(0)).sum()",
    "s = torch.cdist(out, y); r = (out * s.size(1)).sum()",
    "s = torch.einsum('id,jd->ij', out, y); r = (out * s.size(1)).sum()",
    "s = out @ out.t(); r = (out * torch.eye(s.size(0)).sum()).sum()",
    "s = out.std(0); r = (out * s.size(0)).sum()",
    "s = out @ out.t(); r = s[torch.eye(s.size(0)) == 0].view(s.size(0), -1).logsumexp(1).sum()",
]
SCRIPT = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(67)
data = TensorDataset(torch.randn(14, 4), torch.randn(14, 4))
loader = DataLoader(data, batch_size=6, shuffle=True)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
for x, y in loader:
    out = model(x)
    SIZE
    loss = F.mse_loss(out, y) + 0.1 * r
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.6f}")
"""


@pytest.mark.parametrize("size", SIZES)
def test_it_is_that_of_all_rows(trial: Trial, size: str) -> None:
    verdict = trial.verdict(SCRIPT.replace("SIZE", size))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize(
    "line", ["h = h * (h @ h.t()).size(0)", "h = h * torch.cdist(h, h).size(1)"]
)
def test_it_is_that_of_all_rows_in_a_forward(trial: Trial, line: str) -> None:
    verdict = trial.verdict(script("forward", line))
    assert verdict.outcome is Outcome.SAME, verdict.detail
