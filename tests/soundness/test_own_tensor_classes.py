"""Objects of a project's own class of tensors, which are tensors of what they are given."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
data = TensorDataset(torch.randn(22, 4), torch.randn(22, 4), torch.arange(22) % 3)
loader = DataLoader(data, batch_size=6)


class Noise(torch.Tensor):
    def init(self, kind):
        self.kind = kind

    def sample_(self):
        if self.kind == "normal":
            self.normal_(0, 1)


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
z = Noise(torch.zeros(6, 4))
z.init("normal")
for epoch in range(2):
    for x, y, k in loader:
        z.sample_()
        out = model(x)
        loss = LOSS
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.6f}")
"""


@pytest.mark.parametrize(
    "loss",
    [
        "F.mse_loss(model(x + z[: len(x)]), y)",
        "F.mse_loss(out, y) * (z[: len(x)] ** 2).mean()",
        "F.mse_loss(out + z[k], y)",
        "F.mse_loss(out + z[0], y)",
        "F.mse_loss(out, Noise(y))",
        "F.mse_loss(model(Noise(x)), y)",
        "F.mse_loss(out, y) * Noise(out).mean()",
        "F.mse_loss(out, y) + Noise(x).mean() * out.mean()",
        "F.mse_loss(out - Noise(x).mean(0), y)",
        "F.mse_loss(out, y) * Noise(x.mean(0)).sum()",
        "F.mse_loss(out, y) + 0.1 * (out - Noise(x)).sum()",
        "F.mse_loss(model(z), z * 2) + F.mse_loss(out, y)",
    ],
)
def test_they_are_followed_as_tensors(trial: Trial, loss: str) -> None:
    verdict = trial.verdict(SCRIPT.replace("LOSS", loss))
    assert verdict.outcome is Outcome.SAME, verdict.detail
