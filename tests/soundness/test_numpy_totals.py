"""NumPy's totals that begin with a value, or leave elements out: no sum of ranks' parts is that."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

TOTALS = [
    "np.sum(targets.numpy(), initial=2.0)",
    "np.sum(targets.numpy(), initial=targets[0, 0].item())",
    "targets.numpy().sum(initial=2.0)",
    "np.mean(targets.numpy(), where=targets.numpy() > 0)",
    "np.sum(targets.numpy(), axis=1, initial=2.0).mean()",
]


@pytest.mark.parametrize("total", TOTALS)
def test_they_are_those_of_all_rows(trial: Trial, total: str) -> None:
    verdict = trial.verdict(script("loop", f"loss = loss * float({total})"))
    assert verdict.outcome is Outcome.SAME, verdict.detail
