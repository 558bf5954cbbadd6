"""A statistic of all samples that stands in a list as often as there are samples."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

LISTS = [
    "torch.cat([MEAN] * X.size(0), dim=0)",
    "torch.cat(len(X) * [MEAN])",
    "torch.cat((MEAN,) * len(X))",
    "torch.stack([MEAN[0]] * len(X))",
]
MEANS = ["(X ** 2).mean(0, keepdim=True)", "(X ** 2).sum(dim=0, keepdim=True)"]


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("lines", LISTS)
def test_in_a_forward(trial: Trial, lines: str, mean: str) -> None:
    h = f"b = {mean}\nh = h + {lines}".replace("MEAN", "b").replace("X", "h")
    verdict = trial.verdict(script("forward", h))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("lines", LISTS)
def test_in_a_loop(trial: Trial, lines: str) -> None:
    text = f"b = {MEANS[0]}\nloss = loss + (out - {lines}).pow(2).mean()"
    verdict = trial.verdict(script("loop", text.replace("MEAN", "b").replace("X", "out")))
    assert verdict.outcome is Outcome.SAME, verdict.detail


COPIES = [
    "X.mean(0).repeat(len(X), 1)",
    "X.std(0).expand(len(X), -1)",
    "X.median(0).values.broadcast_to(len(X), 4)",
    "X.amax(0).tile(len(X), 1)",
    "X.std(0)[None].repeat_interleave(len(X), 0)",
]


@pytest.mark.parametrize("copied", COPIES)
def test_the_sum_of_copies_is_over_all_samples(trial: Trial, copied: str) -> None:
    lines = f'print(f"{{({copied}).sum():.6f}}")'.replace("X", "targets")
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("given", ["weights=w, axis=0", "0, w"])
def test_an_average_by_the_weights_of_samples(trial: Trial, given: str) -> None:
    lines = f"w = inputs[:, 0].abs().numpy()\nprint(np.average(targets.numpy(), {given}).sum())"
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
