"""A collective makes whole what it gets from there on, and nothing before it."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.setups import SETUPS

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
