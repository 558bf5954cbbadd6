"""A column of samples beside one number of each: PyTorch makes a row of all for each sample."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

COLUMNS = [
    "out.index_select(1, torch.tensor([0]))",
    "out.chunk(4, 1)[0]",
    "out.split(1, 1)[0]",
    "out.narrow(1, 0, 1)",
    "out.gather(1, labels[:, None])",
    "torch.cat([out[:, :1]], 1)",
]


@pytest.mark.parametrize("column", COLUMNS)
def test_the_rows_are_those_of_all_ranks(trial: Trial, column: str) -> None:
    lines = f"r = {column} - targets[:, 0]\nloss = loss + 0.1 * r.pow(2).mean()"
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
