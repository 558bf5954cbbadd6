"""Steps that a trainer makes: the loss comes out of ``functools.partial``, the model's and the
optimizer's part lie in an object beside it, and a batch is gone through in parts.
"""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

TRAINER = """
import functools

class Losses:
    def of(self, model, x, y=None, scale=1.0):
        terms = {}
        terms["loss"] = criterion(model(x), y) * scale
        return terms

class Precision:
    def backward(self, loss):
        loss.backward()
    def optimize(self, optimizer):
        optimizer.step()

class Loop:
    def __init__(self, batches, size):
        self.batches, self.size, self.losses = batches, size, Losses()
        self.precision, self.step = Precision(), 0
    def run(self):
        while self.step < 100:
            x, y = next(self.batches)
            self.run_step(x, y)
    def run_step(self, x, y):
        self.forward_backward(x, y)
        self.precision.optimize(optimizer)
        self.step += 1
    def forward_backward(self, x, y):
        optimizer.zero_grad()
        for i in range(0, x.shape[0], self.size):
            part, wanted = x[i : i + self.size].to(device), y[i : i + self.size].to(device)
            compute = functools.partial(self.losses.of, model, part, {given})
            loss = compute()["loss"].mean()
            {before}
            {backward}

def endless(batches):
    while True:
        yield from batches

Loop(endless(loader), 8).run()
"""
PLAIN = "self.precision.backward(loss)"
SWALLOWED = """try:
                self.precision.backward(loss)
            except RuntimeError:
                {then}"""


def _codes(lint_text: Lint, before: str, backward: str, given: str = "y=wanted") -> set[str]:
    text = SETUPS["distributed"] + TRAINER.replace("{given}", given)
    text = text.replace("{before}", before).replace("{backward}", backward)
    return {one.code for one in lint_text(text, select=("DDP402", "DDP404"))}


@pytest.mark.parametrize("given", ["y=wanted", "wanted, scale=2.0"])
@pytest.mark.parametrize("left", ["continue", "return"])
def test_a_part_is_left_out_by_its_loss(given: str, left: str, lint_text: Lint) -> None:
    assert _codes(lint_text, f"if loss.item() > 10: {left}", PLAIN, given) == {"DDP402"}
    assert not _codes(lint_text, f"if self.step > 10: {left}", PLAIN, given)


def test_a_part_whose_error_is_swallowed(lint_text: Lint) -> None:
    assert _codes(lint_text, "pass", SWALLOWED.format(then="continue")) == {"DDP404"}
    assert not _codes(lint_text, "pass", SWALLOWED.format(then="raise"))


def test_what_comes_after_the_step_may_be_left_out(lint_text: Lint) -> None:
    after = PLAIN + "\n            if loss.item() > 10: continue\n            print(self.step)"
    assert not _codes(lint_text, "pass", after)


LAST = """
def advance(loss):
    loss.backward()
    optimizer.step()

def train_step(x, y):
    loss = criterion(model(x.to(device)), y.to(device))
    if {asked}:
        return
    advance(loss)

for x, y in loader:
    train_step(x, y)
"""


def test_a_step_ends_before_a_helper_s_backward(lint_text: Lint) -> None:
    setup = SETUPS["distributed"]
    for asked, wrong in (("loss.item() > 10", True), ("len(loader) > 10", False)):
        found = lint_text(setup + LAST.format(asked=asked), select=("DDP402",))
        assert bool(found) is wrong
