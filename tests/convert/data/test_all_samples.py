"""Trainings on all samples at once, or on batches of them that are picked by position."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.convert import Refusal
from tests.convert.examples import added, convert_text

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(30, 4), torch.randint(3, (30,)))
brain = nn.Linear(4, 3)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
def judge(x, y):
    with torch.no_grad():
        return F.cross_entropy(brain(x), y).item()
def train(x, y):
    rule.zero_grad()
    F.cross_entropy(brain(x), y).backward()
    rule.step()
"""
TAKEN = "x, y = (t.float() for t in next(iter(DataLoader(data, batch_size=len(data)))))\n"
STEPS = """\
for step in range(9):
    order = torch.randperm(len(x))[:7]
    train(x[order], y[order].long())
    print(judge(x, y.long()))
"""


def test_a_data_set_that_is_taken_as_one_batch_is_no_batch_of_a_step(tmp_path: Path) -> None:
    lines = added(tmp_path, HEAD + TAKEN + STEPS)
    step = "dd.mean(F.cross_entropy(brain(dd.shard_batch(x)), dd.shard_batch(y))).backward()"
    assert step in lines
    assert not any("dd.shard(" in line for line in lines)


def test_batches_of_a_loader_that_goes_on_are_its_batches(tmp_path: Path) -> None:
    loop = "for step in range(9):\n    x, y = next(iter(DataLoader(data, 6)))\n    train(x, y)\n"
    assert any("dd.shard(" in line for line in added(tmp_path, HEAD + loop))


MADE = """\
a, b = torch.randn(30, 4), torch.randint(3, (30,))
c, d = torch.randn(10, 4), torch.randint(3, (10,))
for step in range(9):
    train(a, b)
    SHOWN
"""
APART = "print(judge(a, b))\n    print(judge(c, d))"


@pytest.mark.parametrize("inside", [True, False])
def test_an_evaluation_on_other_samples_than_those_of_all_steps_is_whole(
    tmp_path: Path, inside: bool
) -> None:
    text = MADE.replace("SHOWN", APART)
    if inside:
        text = "def main():\n" + "".join(f"    {s}\n" for s in text.splitlines()) + "main()\n"
    lines = added(tmp_path, HEAD + text)
    assert lines[lines.index("with dd.replicated():") + 1] == "print(judge(c, d))"
    assert not any("10" in line for line in lines)


def test_where_it_cannot_be_told_apart_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="elsewhere from others that cannot be"):
        convert_text(tmp_path, HEAD + MADE.replace("SHOWN", "print(judge(a, b), judge(c, d))"))
