"""Shapes that are compared depend on how many rows there are, unless they are of the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from ddpify.convert import convert_file
from tests.soundness.known_forms import script

# ``whole`` has the rows of all ranks.
_WHOLE = "whole = torch.cumsum(out, 0)\n"
BESIDE_WHOLE = [
    "assert whole.size() == targets.size()\nr = whole - targets",
    "r = whole - targets if targets.shape == whole.shape else whole",
    "r = whole if whole.size() != targets.size() else 3 * whole",
    "s, t = whole.shape, targets.shape\nr = whole * 3 if s == t else whole",
    "r = whole * 3 if whole.shape == (loader.batch_size, 4) else whole",
]
BESIDE_NUMBERS = [
    "r = out * 3 if out.shape == (loader.batch_size, 4) else out",
    "r = out * 3 if out.size() == torch.Size([loader.batch_size, 4]) else out",
    "r = out * 3 if tuple(out.shape) == (loader.batch_size, 4) else out",
    "r = out * 3 if list(out.size()) != [loader.batch_size, 4] else out",
    "r = out * 3 if out.shape[:1] == (loader.batch_size,) else out",
    "r = out * 3 if (len(targets), 4) == (loader.batch_size, 4) else out",
    "r = out * 3 if [len(targets), 4] == [loader.batch_size, 4] else out",
    "n, c = targets.shape\nr = out * 3 if (n, c) == (loader.batch_size, 4) else out",
    "n = (labels == 1).sum()\nr = out * 3 if (n, 4) == (1, 4) else out",
]


@pytest.mark.parametrize("lines", [*(_WHOLE + one for one in BESIDE_WHOLE), *BESIDE_NUMBERS])
def test_shapes_are_those_of_all_rows(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", f"{lines}\nloss = loss + r.mean()"))
    assert verdict.outcome is Outcome.SAME, verdict.detail


def test_the_shape_of_an_earlier_batch_is_refused(trial: Trial) -> None:
    lines = "r = out * 3 if out.shape == getattr(loader, 'last', None) else out\n"
    lines += "loader.last = out.shape\nloss = loss + r.mean()"
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome in (Outcome.SAME, Outcome.REFUSED), verdict.detail


@pytest.mark.parametrize(
    "lines",
    [
        "assert out.shape == targets.shape",
        "r = out if out.shape[1:] == targets.shape[1:] else out * 3",
        "r = out if out.shape[1:] == (4,) else out * 3",
    ],
)
def test_those_of_the_same_rows_stay(tmp_path: Path, lines: str) -> None:
    path = tmp_path / "script.py"
    path.write_text(script("loop", lines))
    assert lines in convert_file(path).data.decode()
