"""Lists that are made of a list with an item of any kind for each of a rank's samples."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

FIRST = "us = [{'a': a} for a in targets]\n"
MADE = [
    FIRST + "ts = [t['a'] * 2 for t in us]\nloss = loss / len(ts)",
    FIRST + "ts = [{k: 2 * v for k, v in t.items()} for t in us]\nloss = loss / len(ts)",
    FIRST + "ts = [t['a'] for i, t in enumerate(us)]\nloss = loss / len(ts)",
    FIRST + "ts = []\nfor t in us:\n    ts.append(t['a'])\nloss = loss / len(ts)",
    FIRST + "ts = list(map(lambda t: t['a'], us))\nloss = loss / len(ts)",
    FIRST + "ts = [1 for t in us]\nloss = loss / sum(ts)",
    FIRST + "ts = [{**t, 'b': 1} for t in us]\nprint(len(ts))",
    "us = [(a, 1) for a in targets]\nts = [p for p, q in us]\nloss = loss / len(ts)",
    "us = [[a] for a in targets]\nts = [t + t for t in us]\nloss = loss / len(ts)",
]


@pytest.mark.parametrize("lines", MADE)
def test_they_are_as_long_as_those_of_all_samples(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome in (Outcome.SAME, Outcome.UNDIVIDED), verdict.detail


PAIRS = "us = [[a, 2 * a] for a in targets]\n"
FLAT = [
    PAIRS + "ts = [a for t in us for a in t]\nloss = loss / len(ts)",
    "ts = [a for t in out for a in t]\nloss = loss / len(ts)",
    "ts = [a * b for a in out for b in range(2)]\nloss = loss / len(ts)",
    "ts = [a for t in targets.tolist() for a in t if a > 0]\nloss = loss / (1 + len(ts))",
    "ts = []\nfor a in targets:\n    ts.extend([a, a])\nloss = loss / len(ts)",
    "from itertools import chain\nts = [*chain(*[[a, a] for a in targets])]\nloss = loss / len(ts)",
    PAIRS + "ts = {i: a for i, t in enumerate(us) for a in t}\nloss = loss / len(ts)",
]


@pytest.mark.parametrize("lines", FLAT)
def test_so_are_those_with_several_items_of_each(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome in (Outcome.SAME, Outcome.UNDIVIDED), verdict.detail
