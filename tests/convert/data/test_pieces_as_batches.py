"""Batches made by hand: the pieces of a shuffled order, or of the data, one in each round."""

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

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
samples, kinds = torch.randn(13, 4), torch.arange(13) % 3
brain = nn.Linear(4, 3)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
for epoch in range(2):
    total, seen = 0.0, 0
    order = torch.randperm(len(samples))
    for LOOP:
        penalty = F.cross_entropy(brain(ROWS), KINDS)
        rule.zero_grad()
        penalty.backward()
        rule.step()
        total += penalty.item() * len(KINDS)
        seen += len(KINDS)
    print(f"{total / seen:.6f}", seen)
"""
BY_INDEX = ("samples[at]", "kinds[at]")
FORMS = [
    ("at in order.split(5)", *BY_INDEX),
    ("at in torch.split(order, 5)", *BY_INDEX),
    ("step, at in enumerate(order.chunk(3))", *BY_INDEX),
    ("at in torch.randperm(13).split(5)", *BY_INDEX),
    ("a, b in zip(samples.split(5), kinds.split(5))", "a", "b"),
    ("a, b in zip(samples[order].chunk(3), kinds[order].chunk(3))", "a", "b"),
]


@pytest.mark.parametrize(("loop", "rows", "kinds"), FORMS)
def test_a_piece_is_a_batch(tmp_path: Path, trial: Trial, loop: str, rows: str, kinds: str) -> None:
    script, converted = tmp_path / "train.py", tmp_path / "train_ddp.py"
    script.write_text(TRAINING.replace("LOOP", loop).replace("ROWS", rows).replace("KINDS", kinds))
    converted.write_bytes(convert_file(script).data)
    assert b"spread" not in converted.read_bytes()  # each rank takes its own, and no more
    assert_trains_the_same(trial, script, converted)


TABLE = """\
class Picking(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, table, at, around):
        return self.layer(table[at]) + self.layer(table[around].mean(1))


beside = torch.randint(0, 13, (13, 2))
brain = Picking()
"""


@pytest.mark.parametrize("loop", ["at in order.split(5)", "at in (order[:5], order[5:9])"])
def test_a_table_that_a_forward_picks_from_is_none(tmp_path: Path, trial: Trial, loop: str) -> None:
    text = TRAINING.replace("brain = nn.Linear(4, 3)\n", TABLE).replace("LOOP", loop)
    text = text.replace("ROWS", "samples, at, beside[at]").replace("KINDS", "kinds[at]")
    script, converted = tmp_path / "train.py", tmp_path / "train_ddp.py"
    script.write_text(text)
    converted.write_bytes(convert_file(script).data)
    assert_trains_the_same(trial, script, converted)
