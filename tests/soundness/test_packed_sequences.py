"""The time steps of packed sequences: those of all ranks are not the ranks' one after the other."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial

SCRIPT = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
steps, lengths = torch.randn(23, 6, 3), torch.randint(1, 7, (23,))
data = TensorDataset(steps, lengths, torch.randint(0, 3, (23, 6)))
loader = DataLoader(data, batch_size=6, shuffle=True)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(3, 4, batch_first=True)
        self.cell = nn.GRUCell(3, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, x, n):
        FORWARD

def pack(x, lengths):
    return pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, n, y in loader:
    optimizer.zero_grad()
    LOOP
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.5f}")
"""
EACH = "h, _ = self.rnn(x)\nreturn self.head(h)"
PACKED = "out = model(x, n)\na, b = pack(out, n), pack(y[:, : out.size(1)], n)\n"
# In the order of all samples, or over all of them.
LOOPS = [
    "loss = F.cross_entropy(a.data, b.data)",
    "loss = F.cross_entropy(a[0], b[0], reduction='sum') / len(b[0])",
    "loss = F.cross_entropy(a.data, b.data)\n"
    "best = a.data.topk(2, 1)[1].eq(b.data.view(-1, 1)).sum().item()\n"
    "print(best / a.data.size(0))",
    "w = torch.arange(len(b.data)).double() + 1\n"
    "loss = (F.cross_entropy(a.data, b.data, reduction='none') * w).sum() / w.sum()",
    "loss = F.cross_entropy(a.data, b.data)\nprint(b.data[:3].tolist(), b.data[0].item())",
    "loss = F.cross_entropy(a.data - a.data.mean(0), b.data)",
    "q, z = a.data, b.data\nloss = F.cross_entropy(q, z)\nprint(z.tolist())",
    "q, z = a.data, b.data\nloss = F.cross_entropy(q, z) + 0.1 * q.flip(0).mul(q).mean()",
    "first = int(a.batch_sizes[0])\nloss = F.cross_entropy(a.data[:first], b.data[:first])",
    "q, sizes, _, _ = a\nloss = F.cross_entropy(q, b.data)\n"
    "print(sizes.tolist(), a[1].sum().item())",
    "loss = F.cross_entropy(a.data, b.data)\nprint(b.data.tolist()[:4])",
]
# A forward that sorts its samples, and computes a step for those that are long enough.
DECODER = """\
n, order = n.sort(dim=0, descending=True)
x = x[order]
h = torch.zeros(x.size(0), 4)
lengths = n.tolist()
out = torch.zeros(x.size(0), max(lengths), 3)
for t in range(max(lengths)):
    many = sum([one > t for one in lengths])
    h = self.cell(x[:many, t], h[:many])
    out[:many, t, :] = self.head(h)
return out, lengths, order"""
DECODED = """\
out, lengths, order = model(x, n)
z = y[order][:, : out.size(1)]
out = pack_padded_sequence(out, lengths, batch_first=True).data
z = pack_padded_sequence(z, lengths, batch_first=True).data
loss = F.cross_entropy(out, z)"""


@pytest.mark.parametrize("lines", LOOPS)
def test_steps_are_in_the_order_of_one_process(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(_script(EACH, PACKED + lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


def test_what_a_forward_sorts_is_packed_as_a_whole(trial: Trial) -> None:
    verdict = trial.verdict(_script(DECODER, DECODED))
    assert verdict.outcome in (Outcome.SAME, Outcome.UNDIVIDED), verdict.detail


def _script(forward: str, loop: str) -> str:
    text = SCRIPT.replace("FORWARD", forward.replace("\n", "\n        "))
    return text.replace("LOOP", loop.replace("\n", "\n    "))
