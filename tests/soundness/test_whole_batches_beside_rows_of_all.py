"""Batches made by hand that meet the rows of all ranks, which something before gathers."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import numpy as np
import torch
from torch import nn

torch.set_default_dtype(torch.float64)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(12, 4), nn.Linear(4, 3)

    def score(self, states, mask):
        last = states[torch.arange(mask.shape[0]), mask.sum(1).clamp(min=1) - 1]
        return self.head(last + (states * mask.unsqueeze(-1)).sum(1))

    def forward(self, x):
        return torch.tanh(self.embed(x))


torch.manual_seed(0)
np.random.seed(0)
items, paths = np.random.randint(0, 12, (28, 5)), np.random.randint(0, 5, (28, 6))
masks, labels = (np.random.rand(28, 6) < 0.7).astype(int), np.random.randint(0, 3, 28)
model = Net()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
order = np.random.permutation(28)
for k in range(0, 28, 8):
    at = order[k : k + 8]
    x, p = torch.from_numpy(items[at]), torch.from_numpy(paths[at])
    m, y = torch.from_numpy(masks[at]), torch.from_numpy(labels[at])
    hidden = model(x)
    h, b = torch.softmax(hidden, 0).mean(1), p[:, :4].double()
{lines}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{{loss.item():.6f}}")
"""
MET = [
    "loss = ((h - b) ** 2).mean() + (h * (b > 2)).sum()",
    "loss = (torch.mul(h, b) ** 2).mean()",
    "loss = (torch.where(b > 2, h, torch.zeros_like(h)) ** 2).mean()",
    "loss = (torch.bmm(h.unsqueeze(1), b.unsqueeze(2)) ** 2).mean()",
    "loss = (torch.einsum('bi,bi->b', h, b) ** 2).mean()",
    "loss = criterion(h @ b.t(), torch.arange(len(y)))",
    "loss = (torch.matmul(b.t(), h) ** 2).mean()",
    "loss = ((h.sum(1) - y) ** 2).mean() + ((h - y[:, None]) ** 2).sum()",
    "same = (y[:, None] == y[None]).double()\nloss = (h @ h.t() * same).mean()",
    "loss = ((h[:, None] - b[None]) ** 2).mean()",
    "z = h * b\nloss = (z[y] ** 2).mean()",
    "left = h.sum(1) > y - 1\nloss = (h[left] ** 2).sum() + (h ** 2).mean()",
    "loss = criterion(model.head(h * b), y)",
    "loss = ((h * torch.rand(4)) ** 2).mean() + ((h * torch.rand(len(y), 1)) ** 2).mean()",
]
TAKEN = [
    "rows = [hidden[i][p[i]] for i in range(len(p))]",
    "rows = [hidden[i][p[i]] for i in torch.arange(len(p)).long()]",
    "take = lambda i: hidden[i][p[i]]\nrows = [take(i) for i in torch.arange(p.shape[0]).long()]",
    "rows = [states[path] for states, path in zip(hidden, p)]",
]


@pytest.mark.parametrize("lines", MET)
def test_a_whole_batch_meets_the_rows_of_all(trial: Trial, lines: str) -> None:
    _is_the_same(trial, lines)


@pytest.mark.parametrize("lines", TAKEN)
def test_another_method_of_the_model_gets_both(trial: Trial, lines: str) -> None:
    _is_the_same(trial, f"{lines}\nloss = criterion(model.score(torch.stack(rows), m), y)")


def _is_the_same(trial: Trial, lines: str) -> None:
    inside = "\n".join(f"    {line}" for line in lines.splitlines())
    verdict = trial.verdict(SCRIPT.format(lines=inside))
    assert verdict.outcome is Outcome.SAME, verdict.detail
