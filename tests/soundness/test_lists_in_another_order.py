"""Lists of rows and of means whose items change their places, and calls that take them apart."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

CHANGES = ["parts.reverse()", "parts.insert(0, targets.mean(0))", "parts.pop(0)", "del parts[0]"]
SPREAD = ["*(out.mean(0), targets.mean(0))", "*map(lambda t: t.mean(0), (out, targets))"]


@pytest.mark.parametrize("change", CHANGES)
def test_no_item_is_taken_for_another(trial: Trial, change: str) -> None:
    lines = f"parts = [out, out.mean(0)]\n{change}\nloss = loss + parts[0].pow(2).mean()"
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome in (Outcome.SAME, Outcome.REFUSED), verdict.detail


@pytest.mark.parametrize("given", SPREAD)
def test_a_loss_of_means_that_a_star_gives(trial: Trial, given: str) -> None:
    verdict = trial.verdict(script("loop", f"loss = loss + F.mse_loss({given})"))
    assert verdict.outcome in (Outcome.SAME, Outcome.REFUSED), verdict.detail


def test_sizes_that_a_pattern_names(trial: Trial) -> None:
    lines = "match out.shape:\n    case (n, 4):\n        loss = loss * n"
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


def test_a_loop_in_one_line_fills_a_list_with_all_rows(trial: Trial) -> None:
    lines = "made = []\nfor i, row in enumerate(h): made.append(row * i)\nh = torch.stack(made)"
    verdict = trial.verdict(script("forward", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
