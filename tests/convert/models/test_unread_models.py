"""Models and layers whose code is not read: the summary names each where it gets rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from ddpify.cli.app import app

SCRIPT = """\
import sys

import mystery
import timm
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = LAYER
        self.head = nn.Linear(4, 4)

    def forward(self, x):
        return self.head(self.body(x))


loader = DataLoader(TensorDataset(torch.randn(22, 4), torch.randn(22, 4)), batch_size=4)
model = MODEL
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for x, y in loader:
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
SAID = "is not read: it is taken to treat each sample by itself"


def summary(tmp_path: Path, layer: str, model: str) -> list[str]:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace("LAYER", layer).replace("MODEL", model))
    result = CliRunner().invoke(app, ["convert", str(script), "-o", str(tmp_path / "out.py")])
    assert result.exit_code == 0, result.output
    return [line.split(": ", 1)[1] for line in result.output.splitlines() if SAID in line]


@pytest.mark.parametrize(
    ("layer", "model", "named"),
    [
        ("nn.Linear(4, 4)", 'mystery.create_model("small")', "mystery.create_model"),
        ("nn.Linear(4, 4)", "getattr(mystery, sys.argv[1])()", "model"),
        ("mystery.Encoder(4)", "Net()", "mystery.Encoder"),
    ],
)
def test_what_is_not_read_is_named(tmp_path: Path, layer: str, model: str, named: str) -> None:
    assert summary(tmp_path, layer, model) == [f"{named} {SAID}"]


@pytest.mark.parametrize("layer", ["nn.Linear(4, 4)", "timm.layers.Mlp(4)", "nn.GELU()"])
def test_known_packages_are_not(tmp_path: Path, layer: str) -> None:
    assert summary(tmp_path, layer, "Net()") == []
