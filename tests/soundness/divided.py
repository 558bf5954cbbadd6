"""What trains the same, and leaves each rank its own rows."""

from __future__ import annotations

from pathlib import Path

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from ddpify.convert import convert_file


def assert_same_without_gathering(trial: Trial, folder: Path, text: str) -> None:
    """A script trains the same at several ranks, and its conversion gathers nothing."""
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail
    path = folder / "train.py"
    path.write_text(text)
    assert b"dd.gather" not in convert_file(path).data
