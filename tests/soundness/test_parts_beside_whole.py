"""A rank's rows or sums where what all ranks hold may come instead."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

LINES = [
    "r = [out, torch.ones(4)][epoch].sum()",
    "r = torch.ones(4) if epoch else out\nr = r.sum()",
    "r = 0.5 if epoch else out.sum()",
    "r = 0.5\nif epoch:\n    r = out.sum()",
    "loss = loss + (eval('0.5') if epoch else out.sum())\nr = 0.0",
    "r = out if epoch else None\nr = r.sum() if r is not None else 0",
    "r = out if epoch else None\nr = r[:, 0].sum() if r is not None else 0.5",
    "r = 1 / (torch.ones(4) if epoch else out).numel()",
    "r = sum(v.sum() for v in (out, torch.ones(4)))",
    "r = sum({'a': out.sum(), 'b': torch.tensor(2.0)}.values())",
]


@pytest.mark.parametrize("line", LINES)
def test_the_part_is_made_whole_before_they_meet(trial: Trial, line: str) -> None:
    verdict = trial.verdict(script("loop", f"{line}\nloss = loss + 0.01 * r"))
    assert verdict.outcome is Outcome.SAME, verdict.detail
