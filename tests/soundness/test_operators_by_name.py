"""Python's operators that change something, or read sizes, by the names of their methods."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

TABLE = "t = torch.zeros(4, 4)\n"
LINES = [
    "z = out * 1\nz.__setitem__(0, 0.0)\nr = z",
    "z = out * 1\nz.__setitem__(slice(1, None), 0.0)\nr = z",
    "z = out * 1\nz.__imul__(targets[0])\nr = z",
    "z = out * 1\nz.__isub__(torch.arange(len(out))[:, None])\nr = z",
    TABLE + "t.__setitem__(labels, inputs)\nr = out * t.mean()",
    TABLE + "t.__setitem__(labels.tolist(), inputs)\nr = out * t.mean()",
    TABLE + "put = t.__setitem__\nput(labels, inputs)\nr = out * t.mean()",
    "import operator\nz = out * 1\noperator.setitem(z, 0, 0.0)\nr = z",
    "import operator\nz = out * 1\noperator.isub(z, out.mean(0))\nr = z",
    "import operator\n" + TABLE + "operator.setitem(t, labels, inputs)\nr = out * t.mean()",
    "r = out * inputs.shape.__getitem__(0)",
    "r = out * float(inputs.shape.__eq__(torch.Size([5, 4])))",
]
FORWARDS = ["z = h * 1\nz.__setitem__(0, 0.0)\nh = h + z", "h = h * h.shape.count(5)"]


@pytest.mark.parametrize("lines", LINES)
def test_in_a_loop(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", f"{lines}\nloss = loss + 0.1 * r.mean()"))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("lines", FORWARDS)
def test_in_a_forward(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("forward", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


def test_in_a_collate_function(trial: Trial) -> None:
    lines = "inputs.__setitem__(0, 0.0)\ninputs.__isub__(inputs.mean(0))"
    verdict = trial.verdict(script("collate", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
