"""``no_sync()`` under conditions, of which only some end a window."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.lint.config import Settings
from ddpify.lint.engine import lint
from ddpify.lint.files.document import Document
from tests.lint.setups import SETUPS

TRAINING = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--averaged", action="store_true")
args = parser.parse_args()

class Trainer:
    def __init__(self):
        self.averaged, self.done = args.averaged, 0

    def loss(self, x, y):
        return criterion(model(x.to(device)), y.to(device))

    def step(self, last, x, y):
{}
        self.done += 1
        if self.done % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()

trainer = Trainer()
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for number, (x, y) in enumerate(loader):
        trainer.step(number % 4 == 3, x, y)
"""
FORWARD = """
        if {}:
            loss = self.loss(x, y)
        else:
            with model.no_sync():
                loss = self.loss(x, y)
        loss.backward()
"""
BOTH = """
        if {}:
            self.loss(x, y).backward()
        else:
            with model.no_sync():
                self.loss(x, y).backward()
"""
PITFALLS = {
    "an attribute": FORWARD.format("self.averaged"),
    "an option": FORWARD.format("args.averaged"),
    "always": "        with model.no_sync():\n            self.loss(x, y).backward()\n",
    "in two statements": "        with model.no_sync():\n            loss = self.loss(x, y)\n"
    "            loss.backward()\n",
}
INNOCENT = {
    "the last of a window": FORWARD.format("last"),
    "one of both": FORWARD.format("last or not self.averaged"),
    "counted": FORWARD.format("self.done % 4 == 3"),
    "both in it": BOTH.format("last"),
    "both in it, counted": BOTH.format("self.done % 4 == 3"),
    "averaged by hand": "        with model.no_sync():\n            self.loss(x, y).backward()\n"
    "        for p in model.parameters():\n            dist.all_reduce(p.grad)\n",
}


def _codes(folder: Path, step: str) -> set[str]:
    path = folder / "train.py"
    path.write_text(SETUPS["distributed"] + TRAINING.format(step))
    result = lint(Document(str(path), path.read_bytes()), Settings(root=folder))
    assert result.failure is None, result.failure
    return {one.code for one in result.found}


@pytest.mark.parametrize("step", PITFALLS.values(), ids=PITFALLS)
def test_a_condition_that_ends_no_window_is_found(step: str, tmp_path: Path) -> None:
    assert "DDP415" in _codes(tmp_path, step)


@pytest.mark.parametrize("step", INNOCENT.values(), ids=INNOCENT)
def test_a_window_is_left(step: str, tmp_path: Path) -> None:
    assert "DDP415" not in _codes(tmp_path, step)
