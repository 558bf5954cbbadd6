"""Tensors of one number that meet batches made by hand: nothing of them is split."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

LINES = [
    "r = torch.zeros(())\nfor a in out:\n    for b in out:\n"
    "        r = r + (a - b).pow(2).mean() / 50\nr = F.mse_loss(r, targets)",
    "r = torch.tensor(max(out.detach().sum(1).tolist()))\nr = F.mse_loss(r, targets)",
    "import statistics\nr = torch.tensor(statistics.median(out.detach().sum(1).tolist()))\n"
    "r = F.mse_loss(r, targets)",
    "r = torch.tensor(float(epoch))\nr = F.mse_loss(r, targets)",
    "r = torch.full((), 0.5)\nr = F.l1_loss(out, r)",
    "r = torch.rand(())\nr = F.mse_loss(out, r * targets)",
    # and of as many as the batch has rows
    "r = torch.zeros(5, 4)\nr = F.mse_loss(out, r)",
    "r = torch.tensor([[0.5] * 4] * 5)\nr = F.mse_loss(out, r)",
    "r = torch.as_tensor(abs(np.ones((5, 4))), dtype=out.dtype)\nr = F.mse_loss(out, r)",
    "r = torch.as_tensor(sum(np.ones((3, 5, 4))), dtype=out.dtype)\nr = F.mse_loss(out, r)",
    "r = torch.as_tensor(max(np.ones((3, 5, 4)), key=np.sum), dtype=out.dtype)\n"
    "r = F.mse_loss(out, r)",
]


@pytest.mark.parametrize("line", LINES)
def test_a_number_stays_whole(trial: Trial, line: str) -> None:
    verdict = trial.verdict(script("by hand", line))
    assert verdict.outcome is Outcome.SAME, verdict.detail
