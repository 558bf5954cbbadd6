"""What a hook keeps of a layer's rows is of the batch that the model has got last."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.trying import Trial
from ddpify.convert import convert_file
from tests.convert.running import assert_trains_the_same

TRAINING = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 5), nn.Tanh())
        self.head = nn.Linear(5, 3)

    def forward(self, x):
        return self.head(self.body(x))


class Tap:
    def __init__(self, layer):
        self.found = None
        layer.register_forward_hook(self.keep)

    def keep(self, layer, given, made):
        self.found = made


def keep(layer, given, made=None):
    kept["made"] = given[0] if made is None else made


def keep_there(layer, given, made):
    layer.found = made


kept = {}
brain, teacher = Net(), Net()
HOOKS
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
feed = DataLoader(TensorDataset(torch.randn(13, 4), torch.arange(13) % 3), batch_size=5)
for epoch in range(2):
    for a, b in feed:
        with torch.no_grad():
            teacher(a)
        scores = brain(a)
        extra = EXTRA
        penalty = F.cross_entropy(scores, b) + extra
        rule.zero_grad()
        penalty.backward()
        rule.step()
        print(f"{penalty.item():.6f} {extra.item():.6f}")
"""
FORMS = {
    "an entry": (
        "brain.body.register_forward_hook(keep)",
        "(kept['made'] - kept['made'].mean(0)).pow(2).mean()",
    ),
    "an input": (
        "brain.head.register_forward_pre_hook(keep)",
        "kept['made'].std(0).sum()",
    ),
    "an attribute of the layer": (
        "brain.body.register_forward_hook(keep_there)",
        "F.mse_loss(brain.body.found, brain.body.found.mean(0).expand(len(a), -1))",
    ),
    "of two models": (
        "own, other = [Tap(layer) for layer in (brain.body, teacher.body)]",
        "F.mse_loss(own.found, other.found)"
        " + (F.normalize(own.found @ own.found.t()) - F.normalize(other.found @ other.found.t()))"
        ".pow(2).sum() / len(a) ** 2",
    ),
}


@pytest.mark.parametrize(("hooks", "extra"), FORMS.values(), ids=FORMS)
def test_what_a_hook_keeps_is_of_this_batch(
    tmp_path: Path, trial: Trial, hooks: str, extra: str
) -> None:
    script, converted = tmp_path / "train.py", tmp_path / "train_ddp.py"
    script.write_text(TRAINING.replace("HOOKS", hooks).replace("EXTRA", extra))
    converted.write_bytes(convert_file(script).data)
    assert_trains_the_same(trial, script, converted)
