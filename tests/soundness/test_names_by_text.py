"""Values that a script finds by their names in a text: they are what the names stand for."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

LINES = [
    's = out.sum()\nloss = loss + 0.1 * globals()["s"]',
    's = out.sum()\nloss = loss + 0.1 * globals().get("s")',
    's = out.sum()\nloss = loss + 0.1 * locals()["s"]',
    's = out.sum()\nloss = loss + 0.1 * vars()["s"]',
    's = targets.sum()\nname = "s"\nloss = loss * dict(globals())[name]',
    's = out.sum()\nloss = loss + 0.1 * eval("s * 2")',
    's = out.sum()\nexec("v = s * 2")\nloss = loss + 0.1 * v',
    'z = globals().get("out")\nloss = loss + z.flip(0).mul(targets).mean()',
]


@pytest.mark.parametrize("lines", LINES)
def test_they_are_reduced_once(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
