"""Several quantiles of each sample, which lie along a new first dimension."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

LINES = [
    "q = torch.quantile(out, torch.tensor([0.2, 0.5]), dim=1)\nr = (q[0] - q[1]).pow(2).mean()",
    "q = out.quantile(torch.tensor([0.2, 0.5]), 1, keepdim=True)\nr = (q[1] - out).sum()",
    "low, high = out.quantile(torch.tensor([0.2, 0.5]), 1)\nr = (high - low).pow(2).mean()",
    "r = out.quantile(torch.tensor([0.2, 0.5]), 1).mean(0).pow(2).sum()",
    "r = torch.quantile(out, torch.tensor([0.2, 0.5]), dim=0).pow(2).mean()",
    "r = out.quantile(0.3, 1).mean().pow(2)",
    "q = np.percentile(out.detach().numpy(), [20, 50], axis=1)\nprint(q[0].mean())\nr = 0",
]


@pytest.mark.parametrize("lines", LINES)
def test_they_are_taken_of_the_whole_batch(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", f"{lines}\nloss = loss + 0.1 * r"))
    assert verdict.outcome is Outcome.SAME, verdict.detail


def test_so_they_are_in_a_forward(trial: Trial) -> None:
    lines = "q = torch.quantile(h, torch.tensor([0.2, 0.5]), dim=1)\nh = h + 0.1 * q[0][:, None]"
    verdict = trial.verdict(script("forward", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
