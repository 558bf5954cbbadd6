"""Numbers of rows where another number may stand, which all ranks hold: no sum of it is right."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

LINES = [
    "loss = loss + sum(len(rows) for rows in [out, model.weight]) * 0.01",
    "loss = loss + 0.1 * out.sum() / sum([len(out), 8])",
    "n = functools.reduce(lambda a, b: a + b, [len(out), 3])\nloss = loss + out.sum() / n",
    "n = max(len(rows) for rows in [out, model.weight])\nloss = loss + out.sum() / n",
    "n = min([len(rows) for rows in (out, model.weight)])\nloss = loss + out.sum() / n",
    "n = len(out) if epoch else 8\nloss = loss * n / 8",
    "n = len(out) if epoch else 8\nloss = loss + out.sum() / n",
    "loss = loss + sum(len(row) for row in out) * 0.01 * out.mean()",
    "loss = loss + sum(len(row) for row in list(out) + list(model.weight)) * 0.01 * out.mean()",
    "loss = loss + 0.1 * sum(1 for row in list(out) + list(model.weight))",
    "loss = loss + 0.1 * len(list(out) + list(model.weight))",
    "n = torch.tensor([len(row) for row in out])\nloss = loss + (out * n[:, None]).mean()",
]


@pytest.mark.parametrize("lines", LINES)
def test_they_are_those_of_all_ranks(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
