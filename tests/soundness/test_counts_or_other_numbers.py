"""A number that is that of the rows on one way, and another on another: it is that of all rows."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

NUMBERS = ["len(out) if epoch else 2", "[2, len(out)][epoch]", "{0: 2}.get(epoch, len(out))"]
USES = [
    "loss = out[:n].pow(2).mean()",
    "loss = out.narrow(0, 0, min(n, len(out))).pow(2).mean()",
    "loss = loss + torch.ones(n, 4).sum() / 100",
    "loss = loss * len([1 for _ in range(n)])",
    "loss = torch.cat(out.split(n)[:1]).pow(2).mean()",
]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("lines", USES)
def test_a_number_that_may_count_the_rows(trial: Trial, number: str, lines: str) -> None:
    verdict = trial.verdict(script("loop", f"n = {number}\n{lines}"))
    assert verdict.outcome is Outcome.SAME, verdict.detail
