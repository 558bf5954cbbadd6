"""Sequences that a forward sorts by their lengths to pack them: each rank keeps its own of them."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

SCRIPT = """\
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
words, lengths = torch.randint(1, 20, (23, 9)), torch.randint(2, 10, (23,))
data = TensorDataset(words, lengths, torch.randint(0, 3, (23,)))
loader = DataLoader(data, batch_size=6, shuffle=True)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 6)
        self.rnn = nn.GRU(6, 8, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x, n):
        LINES

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, n, y in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x, n), y)
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.5f}")
"""
SORTED = [
    """\
n, order = torch.sort(n, descending=True)
packed = pack_padded_sequence(self.embed(x[order]), n.tolist(), batch_first=True)
_, h = self.rnn(packed)
_, back = torch.sort(order)
return self.head(h.squeeze()[back])""",
    """\
n, order = n.sort(0, descending=True)
packed = pack_padded_sequence(self.embed(x)[order], n.cpu().numpy(), batch_first=True)
out, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
return self.head(out[order.argsort()].mean(1))""",
    """\
order = np.argsort(-n.numpy())
packed = pack_padded_sequence(self.embed(x[order]), n[order], batch_first=True)
_, h = self.rnn(packed)
return self.head(h[0][np.argsort(order)])""",
    """\
n, order = torch.sort(n, descending=True)
packed = pack_padded_sequence(self.embed(x.index_select(0, order)), n, batch_first=True)
_, h = self.rnn(packed)
return self.head(h[:, order.sort()[1]][0])""",
]
ORDERS = [
    "h = h * (i == 0)[:, None]",
    "h = h * i.eq(i.argsort())[:, None]",
    "h = torch.where((i < 2)[:, None], h, h.tanh())",
    "h = h[i] * i.sort()[0][:, None]",
]


@pytest.mark.parametrize("lines", SORTED)
def test_each_rank_packs_its_own(trial: Trial, lines: str) -> None:
    text = SCRIPT.replace("LINES", lines.replace("\n", "\n        "))
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("line", ORDERS)
def test_an_order_is_that_of_all_samples(trial: Trial, line: str) -> None:
    verdict = trial.verdict(script("forward", f"i = torch.argsort(inputs[:, 0])\n{line}"))
    assert verdict.outcome in (Outcome.SAME, Outcome.UNDIVIDED), verdict.detail
