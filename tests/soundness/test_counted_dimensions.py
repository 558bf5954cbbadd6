"""Matrices of samples that get a dimension in their midst, beside those that did not."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

MATRICES = [
    "torch.broadcast_to(targets[:, :1], inputs.shape)",
    "targets[:, :1].broadcast_to(inputs.size())",
    "targets[:, :1].expand_as(inputs)",
    "targets.view_as(inputs)",
    "targets.reshape_as(inputs)",
    "targets.tile(1, 1)",
    "torch.tile(targets, (1, 1))",
    "torch.stack(targets.unbind(1), 1)",
    "torch.cat(targets.chunk(2, 1), 1)",
    "torch.hstack([targets[:, :2], targets[:, 2:]])",
]


@pytest.mark.parametrize("matrix", MATRICES)
def test_each_sample_meets_all(trial: Trial, matrix: str) -> None:
    lines = f"r = {matrix}[:, None] * out\nloss = loss + 0.1 * r.pow(2).mean()"
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("matrix", MATRICES)
def test_without_that_each_meets_its_own(trial: Trial, matrix: str) -> None:
    text = script("loop", f"r = {matrix} * out\nloss = loss + 0.1 * r.pow(2).mean()")
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail
    converted = trial.converted(text)
    assert isinstance(converted, str)
    assert "dd.gather" not in converted
