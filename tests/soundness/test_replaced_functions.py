"""Functions of a script that are put under the names of a library.

Each script puts the library's own back at its end: others run in the same process.
"""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

REPLACED = [
    ("loop", "F.mse_loss", "lambda o, y: (o - y.mean(0)).pow(2).mean()", "pass"),
    ("loop", "torch.relu", "lambda t: kept(t - t.mean(0))", "loss = loss + torch.relu(out).mean()"),
    ("loop", "F.relu", "lambda t: t * len(t)", "loss = loss + F.relu(out).mean()"),
    ("loop", "nn.Linear.forward", "lambda self, v: kept(self, v.flip(0))", "pass"),
    ("forward", "torch.sigmoid", "lambda t: t - t.mean(0)", "h = h + torch.sigmoid(h) ** 2"),
]


@pytest.mark.parametrize(("place", "name", "function", "lines"), REPLACED)
def test_calls_of_the_name_call_the_function(
    trial: Trial, place: str, name: str, function: str, lines: str
) -> None:
    text = script(place, lines)
    put = f"kept = {name}\n{name} = {function}\ntorch.manual_seed"
    verdict = trial.verdict(text.replace("torch.manual_seed", put, 1) + f"{name} = kept\n")
    assert verdict.outcome is Outcome.SAME, verdict.detail
