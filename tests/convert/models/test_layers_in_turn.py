"""Layers one after the other: what the last of them gives, and unseen functions among them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.convert import convert_file
from tests.training_runs import TrainingRuns, assert_same_training

TRAINING = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
IMPORT

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


class Mixed(nn.Module):
    def __init__(self, most):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(most, 6))

    def forward(self, x):
        return mixed(x, self.weight)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = LAYERS
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(24, 3))

    def forward(self, x):
        return FORWARD


feed = DataLoader(TensorDataset(torch.randn(31, 4, 6), torch.randint(3, (31,))), batch_size=7)
brain = Net()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for a, b in feed:
    penalty = F.cross_entropy(brain(a), b)
    rule.zero_grad()
    penalty.backward()
    rule.step()
    print(f"{penalty.item():.6f}")
"""
UNSEEN = "def mixed(x, weight):\n    y = x @ weight.T\n    return y - y.mean(0)\n"


@pytest.mark.parametrize(
    ("layers", "forward"),
    [
        ("nn.Sequential(nn.ReLU(), nn.LSTM(6, 6, batch_first=True))", "self.head(self.body(x)[0])"),
        ("nn.Sequential(Mixed(6), nn.ReLU(), Mixed(6))", "self.head(self.body(x))"),
        ("Mixed(3)", "mixed(self.body(x), torch.eye(3)).mean(1)"),
    ],
)
def test_layers_in_turn(tmp_path: Path, runs: TrainingRuns, layers: str, forward: str) -> None:
    script, converted = tmp_path / "train.py", tmp_path / "train_ddp.py"
    text = TRAINING.replace("LAYERS", layers).replace("FORWARD", forward)
    script.write_text(
        text.replace("IMPORT", "from unseen import mixed" if "Mixed" in layers else "")
    )
    converted.write_bytes(convert_file(script).data)
    (tmp_path / "unseen.py").write_text(UNSEEN)
    original = runs.run(script)
    for ranks in (2, 3):
        assert_same_training(original, runs.run(converted, ranks), work=False)


MASKED = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

feed = DataLoader(TensorDataset(torch.randn(31, 6), torch.randint(3, (31,))), batch_size=7)
brain = nn.Linear(6, 3)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for a, b in feed:
    large = a.sum(1) > 0.5
    a = torch.stack([a, a], dim=1)
    a[~JOINED] = 0
    F.cross_entropy(brain(a.mean(1)), b).backward()
    rule.step()
"""


@pytest.mark.parametrize(
    "joined",
    ["torch.stack([large, large], dim=1)", "torch.cat((large[:, None], large[:, None]), 1)"],
)
def test_masks_that_are_joined_are_a_mask(tmp_path: Path, joined: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(MASKED.replace("JOINED", joined))
    assert f"a[~{joined}] = 0" in convert_file(script).data.decode()
