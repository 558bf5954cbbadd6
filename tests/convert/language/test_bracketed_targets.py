"""``[a, b] = pair`` binds names as ``a, b = pair`` does, and so does ``for [a, b] in pairs``."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.trying import Trial
from ddpify.convert import convert_file
from tests.convert.running import assert_trains_the_same

HEAD = """\
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
np.random.seed(0)
torch.set_default_dtype(torch.float64)
"""
BY_HAND = """

def batch(size):
    x, y = np.random.randn(size, 3), np.random.randint(0, 2, size)
    return torch.from_numpy(x), torch.from_numpy(y)


model = nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for [step, size] in [(0, 6), (1, 5), (2, 7)]:
    [x, y] = batch(size)
    [rows, columns] = x.shape
    loss = F.cross_entropy(model(x), y, reduction="sum") / rows
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, rows, columns, loss.item())
"""
OF_A_LOADER = """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.GRU(3, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x):
        [out, h] = self.rnn(x)
        [b, t, c] = out.shape
        return [self.head(out.reshape(b * t, c)).view(b, t, 2).mean(1), h[-1]]


def make():
    [net, other] = [Net(), nn.Linear(4, 1)]
    return [net, other]


loader = DataLoader(TensorDataset(torch.randn(13, 5, 3), torch.randint(0, 2, (13,))), batch_size=5)
[model, extra] = make()
optimizer = torch.optim.SGD([*model.parameters(), *extra.parameters()], lr=0.1)
for [i, [x, y]] in enumerate(loader):
    [out, h] = model(x)
    [best, place] = out.max(1)
    loss = F.cross_entropy(out, y) + extra(h).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    [right, total] = [(place == y).sum().item(), len(y)]
    print(i, loss.item(), right / total, best.sum().item())
for [x, y] in loader:
    with torch.no_grad():
        [[out, h], z] = [model(x), y.size(0)]
    print(out.sum().item(), z)
"""


@pytest.mark.parametrize("text", [BY_HAND, OF_A_LOADER])
def test_names_in_brackets_train_the_same(tmp_path: Path, trial: Trial, text: str) -> None:
    script, converted = tmp_path / "train.py", tmp_path / "train_ddp.py"
    script.write_text(HEAD + text)
    converted.write_bytes(convert_file(script).data)
    assert_trains_the_same(trial, script, converted)
