"""Schedules of the project that some ranks step, or that ranks step by numbers of their own."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

OWN = """
class Schedule:
    def __init__(self, optimizer, field="lr"):
        self.optimizer, self.field = optimizer, field

    def step(self, epoch):
        self.update(0.1 / (1 + epoch))

    def update(self, value):
        for group in self.optimizer.param_groups:
            group[self.field] = value


class Warm(Schedule):
    def update(self, value):
        super().update(min(value, 0.05))


def make(kind, optimizer):
    if kind == "warm":
        return Warm(optimizer), 3
    return Schedule(optimizer), 0


plan, _ = make("warm", optimizer)
plan.step(0)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        criterion(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
    {}
"""
WATCH = """
class Watch:
    def __init__(self, optimizer):
        self.optimizer, self.rates = optimizer, []

    def step(self, epoch):
        for group in self.optimizer.param_groups:
            self.rates.append(group["lr"])


watch = Watch(optimizer)
"""


def _codes(lint_text: Lint, step: str) -> set[str]:
    return {one.code for one in lint_text(SETUPS["distributed"] + WATCH + OWN.format(step))}


@pytest.mark.parametrize(
    "step",
    ["if rank == 0: plan.step(epoch)", "plan.step(epoch) if dist.get_rank() == 0 else None"],
)
def test_some_ranks_step_it(step: str, lint_text: Lint) -> None:
    assert "DDP407" in _codes(lint_text, step)


@pytest.mark.parametrize("step", ["plan.step(epoch + rank)", "plan.step(epoch * (rank + 1) + 3)"])
def test_ranks_step_it_apart(step: str, lint_text: Lint) -> None:
    assert "DDP406" in _codes(lint_text, step)


@pytest.mark.parametrize("step", ["plan.step(epoch)", "if rank == 0: watch.step(epoch)"])
def test_all_ranks_have_one_rate(step: str, lint_text: Lint) -> None:
    assert not _codes(lint_text, step) & {"DDP406", "DDP407"}
