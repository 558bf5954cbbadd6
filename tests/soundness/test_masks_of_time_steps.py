"""Masks over the time steps of sequences that have these first: what is left lies step by step."""

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
        self.embed, self.rnn, self.head = nn.Embedding(12, 4), nn.LSTM(4, 4), nn.Linear(4, 2)

    def forward(self, tokens):
        h = self.head(self.rnn(self.embed(tokens))[0])
{forward}


torch.manual_seed(0)
texts, labels = torch.randint(0, 12, (28, 5)), torch.randint(0, 2, (28,))
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(0, 28, 8):
    tokens = texts[i : i + 8].t()
    out = net(tokens)
{loop}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{{loss.item():.6f}}")
"""
FORWARDS = [
    "return h[tokens > 3]",
    "return h[None][:, tokens > 3]",
    "return h[tokens > 3].mean(0, keepdim=True) + 0 * h[0]",
    "return h[tokens > 3].sum(0) / (tokens > 3).sum() + 0 * h[0]",
    "z = h * 1.0\nz[tokens > 3] = 0\nreturn z",
    "z = h * 1.0\nz[tokens > 3] = h[tokens > 3] * 2\nreturn z",
    "z = h * 1.0\nz[tokens > 3] = h[tokens > 3].mean(0)\nreturn z",
    "z = torch.zeros_like(h)\nz[tokens > 3] = torch.tanh(h[tokens > 3])\nreturn z",
    "o = h.reshape(-1, 2)[(tokens > 3).reshape(-1)]\nreturn o.mean(0) + 0 * h",
]
FLAT = "o, m = out.reshape(-1, 2), (tokens > 3).reshape(-1)\n"
LOOPS = [
    "loss = (out[tokens > 3] ** 2).mean()",
    "loss = (out[out[:, :, 0] > 0] ** 2).mean()",
    "m = tokens > 3\nloss = (out[m] ** 2).sum() / m.sum()",
    "loss = nn.functional.cross_entropy(out[tokens > 3], tokens[tokens > 3] % 2)",
    "m = tokens > 3\nprint(len(out[m]), out[m].argmax(1).tolist())\nloss = (out ** 2).mean()",
    "loss = 0.0\nfor row in out[tokens != 5]:\n    loss = loss + row.sum() ** 2",
    "z = out * 1.0\nz[tokens > 3] = torch.softmax(z[tokens > 3], 0)\nloss = (z ** 2).mean()",
    FLAT + "print(o[m].argmax(1).tolist(), m.tolist())\nloss = (out ** 2).mean()",
    FLAT + "loss = (o[m].cumsum(0) ** 2).mean()",
    FLAT + "loss = (o[m][:3] ** 2).mean()",
    FLAT + "loss = nn.functional.cross_entropy(o[m], (tokens % 2).reshape(-1)[m])",
]


@pytest.mark.parametrize("lines", FORWARDS)
def test_a_forward_meets_what_all_ranks_have_left_of_each_step(trial: Trial, lines: str) -> None:
    _is_the_same(trial, lines, "loss = (out ** 2).mean()")


@pytest.mark.parametrize("lines", LOOPS)
def test_so_does_a_training_loop(trial: Trial, lines: str) -> None:
    _is_the_same(trial, "return h", lines)


def _is_the_same(trial: Trial, forward: str, loop: str) -> None:
    inside = "\n".join(f"        {line}" for line in forward.splitlines())
    after = "\n".join(f"    {line}" for line in loop.splitlines())
    verdict = trial.verdict(SCRIPT.format(forward=inside, loop=after))
    assert verdict.outcome is Outcome.SAME, verdict.detail
