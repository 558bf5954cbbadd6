"""Lists of parts of a batch, and of several items of each row: how many they hold goes by all."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

PARTS = [
    "rows = [*out.unbind()]",
    "rows = list(out.unbind())",
    "rows = (*out.unbind(),)",
    "rows = [*out.unbind(), out[0]]",
    "rows = [*reversed(out.unbind())]",
    "rows = [*out.unbind()]\nrows = rows + rows",
    "rows = list(out.split(2))",
    "rows = [*torch.chunk(out, 3)]",
    "rows = tuple(out.split(2))",
    "rows = list(labels.unique())",
    "rows = [part for part in out.split(2)]",
    "rows = list(zip(out.split(2), targets.split(2)))",
    "rows = list(enumerate(out.split(2)))",
    "rows = list(map(torch.sum, out.split(2)))",
    "rows = [1 for part in out.split(2)]",
]
SEVERAL = [
    "rows = sum([list(row) for row in out], [])",
    "rows = sum([row.tolist() for row in out], [])",
    "rows = sum([[1, 2] for row in out], [])",
    "rows = [one for row in out for one in (row, row)][1:]",
    "rows = [one for row in out for one in (row, row)][:-1]",
    "rows = [one for row in out for one in (row, row)][::2]",
]
TOTALS = [
    "n = sum(1 for part in out.split(2))",
    "n = sum(1 for one in [one for row in out for one in (row, row)])",
    "n = max(sum([row.tolist() for row in out], []))",
]


@pytest.mark.parametrize("lines", PARTS + SEVERAL)
def test_their_length_is_that_of_all_ranks(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", f"{lines}\nloss = loss * len(rows)"))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("lines", TOTALS)
def test_so_is_what_is_added_up_of_them(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", f"{lines}\nloss = loss * n"))
    assert verdict.outcome is Outcome.SAME, verdict.detail
