"""Whether a conversion trains as its script does."""

from __future__ import annotations

from pathlib import Path

from benchmarks.soundness.judging import Outcome, original_fails
from benchmarks.soundness.trying import Trial


def assert_trains_the_same(trial: Trial, script: Path, converted: Path) -> None:
    """Run a script alone and its conversion on 2 and 3 ranks, and compare all that they do.

    Raises:
        AssertionError: With the first difference.
    """
    original = trial.original(script.read_text())
    assert not original_fails(original), original_fails(original)
    verdict = trial.compared(original, converted.read_text())
    assert verdict.outcome in (Outcome.SAME, Outcome.UNDIVIDED), verdict
