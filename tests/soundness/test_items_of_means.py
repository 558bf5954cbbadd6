"""Items of a mean over some of the samples: its number of samples is known where it is made."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

LINES = [
    "r = out[labels > 0].mean(0)[0]",
    "r = out[labels > 0].mean(0)[..., 0]",
    "r = out[labels > 0].mean(0)[:2].sum()",
    "r = out[labels > 0].mean(0)\nr = 2 * r[1] + r.flatten()[2] / 3",
    "r = out[torch.nonzero(labels > 0)[:, 0]].mean(0)[0]",
    "r = out[np.flatnonzero(labels.numpy() > 0)].mean(0)[-1]",
    "r = F.mse_loss(out[labels > 0], targets[labels > 0], reduction='none').mean(0)[0]",
]


@pytest.mark.parametrize("line", LINES)
def test_an_item_is_that_of_the_global_mean(trial: Trial, line: str) -> None:
    verdict = trial.verdict(script("loop", f"{line}\nloss = loss + 0.1 * r"))
    assert verdict.outcome is Outcome.SAME, verdict.detail
