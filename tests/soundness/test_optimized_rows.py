"""An optimizer of its own for the rows of a batch: their gradients are of each rank's share."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

ROWS = [
    ("nn.Parameter(torch.zeros_like(inputs))", "torch.optim.SGD([p], lr=0.1)"),
    ("torch.zeros_like(inputs, requires_grad=True)", "torch.optim.Adam([{'params': [p]}], lr=0.1)"),
]
STEP = (
    "own.zero_grad()\nF.mse_loss(model(inputs + p), targets).backward()\nown.step()\n"
    "loss = F.mse_loss(model(inputs + p.detach()), targets)"
)


@pytest.mark.parametrize(("made", "optimizer"), ROWS)
def test_it_is_refused(trial: Trial, made: str, optimizer: str) -> None:
    verdict = trial.verdict(script("loop", f"p = {made}\nown = {optimizer}\n{STEP}"))
    assert verdict.outcome is Outcome.REFUSED, verdict.detail
