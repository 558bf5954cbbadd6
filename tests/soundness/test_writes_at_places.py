"""Writes at places of rows that lie under those of another tensor, or behind other dimensions.

A rank's own row has another place among its rows than among all.
"""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.halved_batches import SCRIPT

WRITES = [
    "m[:2] = 0",
    "m[0] = 0",
    "m[-1] = 0",
    "m[::2] = 0",
    "m[1:] = 0",
    "m[n:] = 0",
    "m[: m.size(0) // 2] = 0",
    "m[both[:, 0] > 0] = 0",
]
MASKS = [
    "m = torch.ones_like(both[:, 0]); WRITE; r = (both[:, 0] * m).sum()",
    "w = out[:, 0].detach(); m = torch.ones_like(torch.cat([w, w])); k = both.softmax(0)[:, 0]\n"
    "        WRITE; r = (m * k).sum()",
    "m = torch.ones(3 * n); WRITE; r = (torch.cat([both, x])[:, 0] * m).sum()",
]
FILLED = [
    "t = torch.zeros(2 * n); t[:n] = 1; r = (both[:, 0].softmax(0) * t).sum()",
    "t = torch.zeros(2 * n, 4); t[:n] = y; r = (both.softmax(0) * t).sum()",
]
BEHIND = [
    "d = torch.zeros(4, n); d[0, 0] = 1; r = d.t() * out",
    "d = torch.zeros(4, n); d[:, -1] = 1; r = d.t() * out",
    "d = torch.zeros(4, n); d[1, :2] = 1; r = d.t() * out",
    "d = torch.zeros(4, n); d[1, : n // 2] = 1; r = d.t() * out",
    "d = torch.zeros(4, n); d[:2] = 1; r = d.t() * out",
    "d = torch.zeros(4, n); d[:, y[:, 0] > 0] = 1; r = d.t() * out",
    "d = out.t() * 2; d[:, 1:] = 0; r = d.t() * y",
    "d = torch.zeros(3, n, 4); d[0] = out; d[1] = y; d[2, 0] = 5; r = d.sum(0)",
    "d = torch.zeros(3, n, 4); d[..., 1:, :] = 1; r = (d * out).sum(0)",
]
ROUNDS = [
    "d[1, i] = out[i, 0]",
    "d[1, i] = out[i].sum() if y[i, 0] > 0 else -1",
    "d[1, i] = (out[i] - out.mean(0)).sum()",
    "d[1, i] = out[i, 0] + out[i - 1, 1]",
]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("mask", MASKS[:2])
def test_masks_are_written_at_places_of_all_rows(trial: Trial, mask: str, write: str) -> None:
    lines = mask.replace("WRITE", write)
    verdict = trial.verdict(SCRIPT.replace("LINES", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("write", WRITES[:6])
def test_a_mask_as_long_as_three_tensors(trial: Trial, write: str) -> None:
    lines = MASKS[2].replace("WRITE", write)
    verdict = trial.verdict(SCRIPT.replace("LINES", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("lines", FILLED + BEHIND)
def test_rows_that_do_not_come_first_are_written_as_all_are(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(SCRIPT.replace("LINES", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("write", ROUNDS)
def test_a_round_for_each_sample_writes_a_column(trial: Trial, write: str) -> None:
    lines = f"d = torch.zeros(4, n)\n        for i in range(n):\n            {write}\n"
    lines += "        r = d.sum(0)"
    verdict = trial.verdict(SCRIPT.replace("LINES", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
