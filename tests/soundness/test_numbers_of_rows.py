"""Rows at numbers that are computed of the one that a loop counts: those of other samples."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

INDICES = [
    "[h[i - 1] + h[abs(i - 1) % len(h)] for i in range(len(h))]",
    "[h[-i] * h[~i] for i in range(len(h))]",
    "[h[(lambda k: k - 1)(i)] + h[torch.tensor(i - 1)] for i in range(len(h))]",
    "[h[i] for i in reversed(range(len(h)))]",
    "[h[i] + h[j] for i, j in enumerate(range(len(h))[::-1])]",
    "[h[i] for i in list(range(len(h)))[::-1]]",
    "[h[i] * (i + 1) for i in range(len(h))]",
]
IN_LOOPS = [
    "made = []\nfor i in range(len(h)):\n    j = i - 1\n    made.append(h[j])\n"
    "h = torch.stack(made)",
    "import operator\nh = torch.stack([h[operator.sub(i, 1)] for i in range(len(h))])",
]


@pytest.mark.parametrize("lines", [f"h = torch.stack({one})" for one in INDICES] + IN_LOOPS)
def test_rows_at_computed_numbers_in_a_forward(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("forward", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("lines", [f"h = torch.stack({one})" for one in INDICES] + IN_LOOPS)
def test_rows_at_computed_numbers_in_a_collate_function(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("collate", f"h = targets\n{lines}\ntargets = h"))
    assert verdict.outcome in (Outcome.SAME, Outcome.REFUSED), verdict.detail


TAKEN_APART = [
    "torch.stack(list(reversed(targets)))",
    "torch.stack(targets.unbind(0)[::-1])",
    "torch.stack(list(targets)[1:] + list(targets)[:1])",
    "targets.sort(0).values",
    "targets.cummax(0).values",
    "torch.cat(targets.split(1)[::-1])",
    "torch.from_numpy(np.sort(targets.numpy(), axis=0))",
    "targets @ targets.T @ targets",
    "targets.index_select(0, torch.arange(len(targets) - 1, -1, -1))",
    "targets.diff(dim=0, prepend=targets[:1])",
    "torch.stack([targets[: i + 1].mean(0) for i in range(len(targets))])",
]


@pytest.mark.parametrize("made", TAKEN_APART)
def test_targets_that_a_collate_function_puts_in_another_order(trial: Trial, made: str) -> None:
    verdict = trial.verdict(script("collate", f"targets = {made}"))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("name", ["statistics.median", "statistics.fmean", "math.fsum"])
def test_numbers_of_all_samples_in_a_collate_function(trial: Trial, name: str) -> None:
    lines = f"import math, statistics\nr = torch.tensor({name}(inputs.sum(1).tolist()))"
    verdict = trial.verdict(script("collate", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
