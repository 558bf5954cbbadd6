"""Trainings of which nothing, or nearly nothing, would be divided among the ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.convert import Refusal
from tests.convert.examples import added

TAGGER = """\
import torch
from torch import nn


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.rnn = nn.LSTM(8, 8, batch_first=True)
        self.out = nn.Linear(8, 5)

    def forward(self, sentences):
        n = len(sentences)
        feats = []
        for s in sentences:
            feats.append(self.words(s))
        h, _ = self.rnn(nn.utils.rnn.pad_sequence(feats, batch_first=True))
        return self.out(h)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.transitions = nn.Parameter(torch.zeros(5, 5))

    def loss(self, x):
        s = self.inner(x)
        return LOSS


rows = [torch.tensor(r) for r in ([1, 2, 3], [4, 5], [7, 8, 9, 10], [3, 1], [6, 2], [1])]
torch.manual_seed(0)
model = Tagger()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for k in range(0, 6, 2):
        loss = model.loss(rows[k : k + 2])
        opt.zero_grad()
        loss.backward()
        opt.step()
"""


def test_samples_that_a_model_puts_together_again_are_no_division(tmp_path: Path) -> None:
    mixing = "s.transpose(0, 1).contiguous().view(-1, 5).logsumexp(0).sum()"
    with pytest.raises(Refusal, match="every rank would do nearly all of the work") as refused:
        added(tmp_path, TAGGER.replace("LOSS", mixing))
    assert refused.value.node is not None
    line = refused.value.module.line(refused.value.node)
    assert "return s.transpose(0, 1)" in refused.value.module.source.text.splitlines()[line - 1]


SPLIT_BEFORE = """\
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 5)

    def loss(self, x):
        s = self.out(x)
        return s.logsumexp(0).sum()


torch.manual_seed(0)
model = Tagger()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    x = torch.randn(6, 8)
    loss = model.loss(x)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def test_what_a_loss_of_a_split_batch_gathers_is_no_loss_of_division(tmp_path: Path) -> None:
    lines = added(tmp_path, SPLIT_BEFORE)
    assert any("dd.shard_batch(" in line for line in lines)
    assert any("dd.gather(" in line for line in lines)
