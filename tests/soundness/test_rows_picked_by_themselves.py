"""Batches made by hand of which a forward picks rows by themselves, as by a mask of their own."""

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
        self.embed, self.head = nn.Embedding(12, 4), nn.Linear(4, 2)

    def forward(self, tokens):
        h = self.embed(tokens)
        m = h.mean(1)
{lines}


torch.manual_seed(0)
texts, labels = torch.randint(0, 11, (28, 5)), torch.randint(0, 2, (28,))
texts[torch.arange(28), torch.randint(0, 5, (28,))] = 11
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(0, 28, 8):
    out = net({given})
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{{loss.item():.6f}}")
"""
BATCH = "texts[i : i + 8]"
LABELLED = "nn.functional.cross_entropy(out, labels[i : i + 8])"
ANY_NUMBER = "(out ** 2).mean()"
ONE_EACH = [
    "return self.head(h[tokens == 11])",
    "return self.head(h.view(-1, 4)[tokens.reshape(-1) == 11, :].view(-1, 4))",
    "return self.head(m[tokens.sum(1).argsort(descending=True)])",
    "order = tokens.sum(1).argsort()\nreturn self.head(m[order])[order.argsort()]",
    "return self.head(m[tokens[:, 0] % 4])",
    "return self.head(m - m[tokens[:, 0] > 4].mean(0))",
    "z = torch.zeros_like(m)\nz[tokens[:, 0] > 4] = m[tokens[:, 0] > 4]\nreturn self.head(z)",
]
SOME = [
    "return self.head(m[tokens[:, 0] > 4])",
    "return self.head(h[tokens > 5])",
    "return self.head(m[m.sum(1).topk(3)[1]])",
    "return self.head(m[(tokens[:, 0] > 4).nonzero().squeeze(1)])",
]


@pytest.mark.parametrize("lines", ONE_EACH)
def test_rows_that_pick_as_many_again_are_a_batch(trial: Trial, lines: str) -> None:
    _is_the_same(trial, lines, LABELLED)


@pytest.mark.parametrize("lines", SOME)
def test_so_are_rows_that_pick_some(trial: Trial, lines: str) -> None:
    _is_the_same(trial, lines, ANY_NUMBER)


def test_nodes_that_pick_their_neighbours_are_none(trial: Trial) -> None:
    lines = "n = m + m[tokens[:, 0]]\nreturn self.head(n[tokens[:, 1] > 3])"
    verdict = trial.verdict(_script(lines, "texts", ANY_NUMBER))
    assert verdict.outcome is Outcome.REFUSED, verdict.detail


def _is_the_same(trial: Trial, lines: str, loss: str) -> None:
    verdict = trial.verdict(_script(lines, BATCH, loss))
    assert verdict.outcome is Outcome.SAME, verdict.detail


def _script(lines: str, given: str, loss: str) -> str:
    inside = "\n".join(f"        {line}" for line in lines.splitlines())
    return SCRIPT.format(lines=inside, given=given, loss=loss)
