"""A collective makes whole what it gets from there on, and nothing before it."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import METER, SETUPS

SCRIPT = """
def mean_over_ranks(value):
    dist.all_reduce(value)
    return value / world_size

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(model(x.to(device)), y.to(device))
        {before}
        loss.backward()
        optimizer.step()
        mean = mean_over_ranks(loss)
        {after}
"""


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("if loss.item() > 10: continue", "pass", True),
        ("own = loss.item()", "if own > 10: break", True),
        ("pass", "if loss.item() > 10: break", False),
        ("pass", "if mean.item() > 10: break", False),
        ("loss = mean_over_ranks(loss)", "if loss.item() > 10: break", False),
    ],
)
def test_before_and_after_a_reduction(
    lint_text: Lint, before: str, after: str, found: bool
) -> None:
    text = SETUPS["distributed"] + SCRIPT.format(before=before, after=after)
    assert ("DDP402" in [one.code for one in lint_text(text)]) is found


HELPER = """
def mean_over_ranks(value):
    if world_size < 2:
        return value
    {copied}
    dist.all_reduce(value)
    return value / world_size

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = criterion(model(x.to(device)), y.to(device))
        mean = mean_over_ranks(loss)
        if {asked}.item() > 10:
            continue
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("copied", "asked", "found"),
    [
        ("value = value.detach().clone()", "loss", True),
        ("value = torch.tensor(value).to(device)", "loss", True),
        ("value = value * 1.0", "loss", True),
        ("value = value.detach()", "loss", False),  # of the same memory
        ("value = value.detach().clone()", "mean", False),
        ("pass", "loss", False),
    ],
)
def test_a_helper_that_reduces_a_copy(
    lint_text: Lint, copied: str, asked: str, found: bool
) -> None:
    text = SETUPS["distributed"] + HELPER.format(copied=copied, asked=asked)
    assert ("DDP402" in [one.code for one in lint_text(text)]) is found


LOGGERS = (
    """
from collections import defaultdict

"""
    + METER
    + """\

    @property
    def average(self):
        return self.total / self.count

class Logger:
    def __init__(self):
        self.meters = defaultdict(Meter)

    def update(self, **values):
        for name, value in values.items():
            self.meters[name].update(value)

    def synchronize(self):
        for meter in self.meters.values():
            meter.synchronize()

    def averages(self):
        return {{name: meter.average for name, meter in self.meters.items()}}

def train():
    logger = Logger()
    for x, y in loader:
        loss = criterion(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        logger.update(loss=loss.item())
    logger.synchronize()
    return logger.averages()

def evaluate():
    logger = Logger()
    for x, y in loader:
        logger.update(loss=criterion(model(x.to(device)), y.to(device)).item())
    {reduced}
    return logger.averages()

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    trained, evaluated = train(), evaluate()
    if {asked}["loss"] < 0.1:
        break
"""
)


@pytest.mark.parametrize(
    ("reduced", "asked", "found"),
    [
        ("pass", "evaluated", True),
        ("pass", "trained", False),
        ("logger.synchronize()", "evaluated", False),
    ],
)
def test_a_logger_beside_one_that_is_reduced(
    lint_text: Lint, reduced: str, asked: str, found: bool
) -> None:
    text = SETUPS["distributed"] + LOGGERS.format(reduced=reduced, asked=asked)
    assert ("DDP402" in [one.code for one in lint_text(text)]) is found
