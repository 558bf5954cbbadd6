"""Layers that let the samples of a batch depend on each other, converted and run."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.trying import Trial
from ddpify.convert import Options, convert_file
from tests.convert.running import assert_trains_the_same

SCRIPT = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
samples, kinds = torch.randn(17, 4), torch.randint(0, 4, (17,))
feed = DataLoader(TensorDataset(samples, kinds), batch_size=6, shuffle=True)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.layer = LAYER

    def forward(self, x, y):
        h = torch.tanh(self.first(x))
        USED
        return self.second(h)


net = Net()
rule = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
for x, y in feed:
    rule.zero_grad()
    loss = F.cross_entropy(net(x, y), y)
    loss.backward()
    rule.step()
    print(f"{loss.item():.6f}")
"""
LAYERS = [
    ("nn.LSTM(4, 4, batch_first=True)", "h = self.layer(h)[0]"),
    ("nn.GRU(4, 4)", "h = self.layer(h.unsqueeze(1))[0].squeeze(1)"),
    ("nn.GRU(4, 4, batch_first=True)", "h = self.layer(h.unsqueeze(0))[0].squeeze(0)"),
    ("nn.RNN(4, 4)", "out, state = self.layer(h)\n        h = out + state.mean()"),
    ("nn.Embedding(4, 4, max_norm=0.5)", "h = h + self.layer(y)"),
    ("nn.Embedding(4, 4, scale_grad_by_freq=True)", "h = h + self.layer(y)"),
    ("nn.Softmax(0)", "h = self.layer(h)"),
    ("nn.Sequential(nn.Linear(4, 4), nn.Softmax(dim=0))", "h = self.layer(h)"),
    ("nn.Conv1d(4, 4, 3, padding=1)", "h = self.layer(h.T[None])[0].T"),
    ("nn.Conv1d(4, 4, 3, padding=1)", "h = self.layer(h.T).T"),
    ("nn.MaxPool1d(3, 1, 1)", "h = self.layer(h.T[None])[0].T"),
    ("nn.Conv2d(1, 1, 3, padding=1)", "h = self.layer(h[None, None])[0, 0]"),
]


@pytest.mark.parametrize(("layer", "used"), LAYERS)
def test_a_layer_along_the_batch_gets_the_rows_of_all_ranks(
    tmp_path: Path, trial: Trial, layer: str, used: str
) -> None:
    script, converted = tmp_path / "script.py", tmp_path / "converted.py"
    script.write_text(SCRIPT.replace("LAYER", layer).replace("USED", used), encoding="utf-8")
    converted.write_bytes(convert_file(script, Options()).data)
    assert "dd.gather(" in converted.read_text(encoding="utf-8")
    assert_trains_the_same(trial, script, converted)
