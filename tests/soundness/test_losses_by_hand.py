"""Losses on batches that are made by hand, with targets that are made in the call."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

_WEIGHTS = "torch.tensor([1.0, 2.0, 3.0, 4.0])"
LOSSES = [
    f"r = F.cross_entropy(out, F.one_hot(k, 4).float(), weight={_WEIGHTS})",
    f"r = F.cross_entropy(input=out, target=F.one_hot(k, 4).float() / 2, weight={_WEIGHTS})",
    f"r = nn.CrossEntropyLoss(weight={_WEIGHTS})(out, torch.tensor(k.tolist()))",
    f"r = F.cross_entropy(out, torch.as_tensor(kinds.numpy()[rows]), weight={_WEIGHTS})",
    "r = F.nll_loss(out.log_softmax(1), torch.as_tensor(k.numpy()), ignore_index=2)",
    "r = F.mse_loss(out, targets, weight=torch.stack([targets[:, 0].abs()] * 4, 1))",
]


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_goes_by_the_targets_that_it_gets(trial: Trial, loss: str) -> None:
    lines = f"kinds = torch.arange(10) % 4\nk = kinds[rows]\n{loss}"
    verdict = trial.verdict(script("by hand", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
