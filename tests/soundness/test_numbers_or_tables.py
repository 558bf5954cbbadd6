"""What looks as a number does, and may be a table: drawn out of several, or scaled in a loop."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

_TABLES = """\
import pickle
import random
random.seed(0)
made = [torch.linspace(i, i + 1, 16).view(4, 1, 4) for i in range(2)]
tables = pickle.loads(pickle.dumps(made))
"""
LINES = [
    "t = random.choice(tables)\nr = (out * t)[0].pow(2)",
    "t = random.choice(tables)\nr = (out * t).sum(1).pow(2)",
    "t = random.sample(tables, 1)[0]\nr = (out * t).sum(1).pow(2)",
    "for t in tables:\n    t *= 0.9\nr = (out * t).sum(1).pow(2)",
    "r = 0\nfor t in tables:\n    t += 0.5\n    r = r + (out * t).sum(1).pow(2).mean()",
    "for _, t in enumerate(tables):\n    t *= 0.9\nr = (out * t).sum(1).pow(2)",
]


@pytest.mark.parametrize("lines", LINES)
def test_it_is_taken_for_a_table(trial: Trial, lines: str) -> None:
    text = script("loop", f"{lines}\nloss = loss + 0.1 * r.mean()")
    verdict = trial.verdict(text.replace("for epoch", f"{_TABLES}for epoch", 1))
    assert verdict.outcome is Outcome.SAME, verdict.detail
