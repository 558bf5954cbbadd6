"""Orders of all samples that stand under each other, as MixMatch draws them: none is gathered."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

START = "n = inputs.size(0)\nboth = torch.cat([inputs, inputs * 1.1])\n"
ORDERS = [
    "first = torch.randperm(n)\nidx = torch.cat([first, torch.randperm(both.size(0) - n) + n])\n",
    "idx = torch.cat([torch.randperm(n), torch.arange(n, 2 * n)])\n",
]
END = "out = model(0.7 * both + 0.3 * both[idx])\nloss = out[:n].square().mean() + out[n:].mean()"


@pytest.mark.parametrize("order", ORDERS)
def test_they_are_those_of_all_ranks(trial: Trial, order: str) -> None:
    verdict = trial.verdict(script("loop", START + order + END))
    assert verdict.outcome in (Outcome.SAME, Outcome.UNDIVIDED), verdict.detail
