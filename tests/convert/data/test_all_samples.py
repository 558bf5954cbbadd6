"""Trainings on all samples at once, or on batches of them that are picked by position."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.trying import Trial
from ddpify.convert import convert_file
from tests.convert.examples import added
from tests.convert.running import assert_trains_the_same

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


EVALUATED = """\
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
brain = nn.Linear(4, 3)
rule = torch.optim.SGD(brain.parameters(), lr=0.1)
a, b = torch.randn(31, 4), torch.randint(3, (31,))
c, d = torch.randn(10, 4), torch.randint(3, (10,))
def judge(x, y):
    return F.cross_entropy(brain(x), y).item()
def rounded(scores):
    return [round(float(one), 4) for one in scores]
for step in range(3):
    rule.zero_grad()
    F.cross_entropy(brain(a), b).backward()
    rule.step()
    print(SHOWN)
"""


@pytest.mark.parametrize(
    ("shown", "line"),
    [
        ("judge(a, b), judge(c, d)", "print(judge(dd.gather(a), dd.gather(b)), judge(c, d))"),
        (
            "rounded(brain(a)[:, 0]), rounded(c[:, 0])",
            "print(rounded(dd.gather(brain(a)[:, 0])), rounded(c[:, 0]))",
        ),
    ],
)
def test_a_function_of_these_samples_and_of_others_gets_all_of_both(
    tmp_path: Path, trial: Trial, shown: str, line: str
) -> None:
    script, converted = tmp_path / "train.py", tmp_path / "train_ddp.py"
    script.write_text(EVALUATED.replace("SHOWN", shown))
    converted.write_bytes(convert_file(script).data)
    assert line in converted.read_text()
    assert_trains_the_same(trial, script, converted)
