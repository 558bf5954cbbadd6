"""A model that gives a tuple with a list in it, where another one gives a tensor alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.trying import Trial
from ddpify.convert import convert_file
from tests.convert.examples import HEAD, added
from tests.convert.running import assert_trains_the_same

TRAINING = """\
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 5), nn.Linear(5, 3)
        self.heads = nn.ModuleList([nn.Linear(5, 3) for _ in range(2)])

    def forward(self, x):
        inner = self.first(x)
        made = self.last(inner)
        if self.training:
            others = [self.heads[i](d) for i, d in enumerate([inner, torch.relu(inner)])]
            return made, others
        return made


class Flat(nn.Module):
    def __init__(self):
        super().__init__()
        self.only = nn.Linear(4, 3)

    def forward(self, x):
        return self.only(x)


def build(name):
    if name == "deep":
        return Deep()
    return Flat()


def each(made, wanted):
    losses = []
    for one, other in zip(made, wanted):
        if other.sum() > 2:
            losses.append(one.sum() * 0.0)
            continue
        far, order = torch.sort((one - other).abs(), dim=0, descending=True)
        losses.append(torch.dot(far, other[order]))
    return torch.stack(losses).mean()


def judge(made, wanted):
    loss = F.mse_loss(made, wanted)
    if EACH:
        loss = loss + 0.5 * each(made, wanted)
    return loss


EACH = len(sys.argv) < 50
brain = build("deep" if EACH else "flat").to("cpu")
rule = torch.optim.SGD(brain.parameters(), lr=0.01)
data = TensorDataset(torch.randn(13, 4), torch.randn(13, 3))
for x, y in DataLoader(data, batch_size=5, shuffle=True):
    made = brain(x)
    if isinstance(made, tuple):
        made, others = made
        loss = judge(made, y)
        for other in others:
            loss = loss + 0.4 * judge(other, y)
    else:
        loss = judge(made, y)
    rule.zero_grad()
    loss.backward()
    rule.step()
    print(f"{loss.item():.6f}")
"""


def test_what_a_gathered_tuple_holds_is_gathered_once(tmp_path: Path, trial: Trial) -> None:
    script, converted = tmp_path / "train.py", tmp_path / "train_ddp.py"
    script.write_text(TRAINING)
    converted.write_bytes(convert_file(script).data)
    assert_trains_the_same(trial, script, converted)


UNSEEN = """\
from elsewhere import Features

brain, taps = nn.Linear(4, 3), Features()
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for a, b in feed:
    found = taps(brain(a))
    LINES
    rule.zero_grad()
    penalty.backward()
    rule.step()
"""


@pytest.mark.parametrize(
    "lines",
    [
        "penalty = sum(o.mean() for o in found) / len(found)",
        "penalty = 0\n    for one in found:\n        penalty = penalty + one.mean()",
        "penalty = sum(k * one.mean() for k, one in zip((1, 2), found))",
    ],
)
def test_what_unseen_code_gives_is_gone_through_whole(tmp_path: Path, lines: str) -> None:
    text = HEAD + UNSEEN.replace("LINES", lines)
    assert "found = dd.gather(taps(brain(a)))" in added(tmp_path, text)
