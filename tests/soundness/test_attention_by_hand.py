"""Attention over batches made by hand whose samples lie along the second dimension."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import torch
from torch import nn

torch.set_default_dtype(torch.float64)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.head = nn.MultiheadAttention(4, 2), nn.Linear(4, 3)

    def features(self, x):
        n = x.shape[0]
        mask = ~torch.tril(torch.ones((n, n), dtype=torch.bool))
        {features}

    def forward(self, q, k, v):
        {forward}


torch.manual_seed(0)
data, labels = torch.randn(28, 5, 4), torch.randint(0, 3, (28,))
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(0, 28, 8):
    x, y = data[i : i + 8].transpose(0, 1), labels[i : i + 8]
    out = {out}
    loss = nn.functional.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{{loss.item():.6f}}")
"""
FEATURES = "return self.attention(x, x, x)[0]"
FORWARD = "return self.head(self.attention(q, k, v)[0].mean(0))"
FORWARDS = [
    FORWARD,
    "h, w = self.attention(q, k, v); return self.head(h.mean(0)) + w.mean()",
    "h, w = self.attention(q, k, v); return self.head((h + w.mean(2).t()[..., None]).mean(0))",
]
CALLS = ["net(x, x, x)", "net(x, k=x, v=x)"]
METHODS = [
    FEATURES,
    "return self.attention(x, x, x, attn_mask=mask)[0]",
    "h, _ = self.attention(x, x, x, attn_mask=mask); return h",
]


@pytest.mark.parametrize("forward", FORWARDS)
def test_it_gives_rows_and_weights(trial: Trial, forward: str) -> None:
    _is_the_same(trial, "net(x, x, x)", forward=forward)


@pytest.mark.parametrize("out", CALLS)
def test_one_batch_is_given_several_times(trial: Trial, out: str) -> None:
    _is_the_same(trial, out)


@pytest.mark.parametrize("features", METHODS)
def test_so_it_is_by_a_method_of_the_model(trial: Trial, features: str) -> None:
    _is_the_same(trial, "net.head(net.features(x).mean(0))", features=features)


def _is_the_same(
    trial: Trial, out: str, *, forward: str = FORWARD, features: str = FEATURES
) -> None:
    verdict = trial.verdict(SCRIPT.format(out=out, forward=forward, features=features))
    assert verdict.outcome is Outcome.SAME, verdict.detail
