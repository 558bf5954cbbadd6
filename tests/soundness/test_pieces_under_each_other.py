"""Several tensors under each other, of which a number of rows leaves more than one.

What is left is in the order of one process if each of the tensors is gathered by itself.
"""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

STACKED = "n = inputs.shape[0]\nz = torch.cat([out, out * 2, out * 3])\n"
LEFT = [
    "b, c = z[n:].chunk(2)\nr = b * c * targets",
    "b, c = z[:-n].chunk(2)\nr = b * c * targets",
    "m = -n\nb, c = z[:m].chunk(2)\nr = b * c * targets",
    "b, c = z[: 2 * n].chunk(2)\nr = b * c * targets",
    "b = z[n:]\nr = b[:n] * b[n:] * targets",
    "b = z[n:]\nr = (b - torch.cat([targets, targets])) ** 2",
    "r = z[n:].cumsum(0)",
    "a, b = z[:n], z[-n:]\nr = (a @ b.T).log_softmax(1).diagonal()",
]


def test_positions_among_what_is_left(trial: Trial) -> None:
    lines = f"{STACKED}r = z[n:] * torch.arange(2 * n)[:, None]\nloss = loss + r.mean()"
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("lines", LEFT)
@pytest.mark.parametrize("place", ["loop", "forward"])
def test_what_is_left_of_several_tensors(trial: Trial, lines: str, place: str) -> None:
    text = f"{STACKED}{lines}"
    if place == "forward":
        text = text.replace("out", "h").replace("targets", "inputs") + "\nh = h + r.mean()"
    else:
        text += "\nloss = loss + r.mean()"
    verdict = trial.verdict(script(place, text))
    assert verdict.outcome is Outcome.SAME, verdict.detail
