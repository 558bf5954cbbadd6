"""Rows beside items that all ranks hold: each meets the one with its number among all rows."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

ITEMS = ["range(100)", "(1.0, 2.0, 3.0, 4.0, 5.0)", "torch.linspace(0, 1, 5)", "[2, 3, 4, 5, 6]"]


@pytest.mark.parametrize("items", ITEMS)
@pytest.mark.parametrize("place", ["loop", "forward", "collate"])
def test_rows_and_items_one_by_one(trial: Trial, items: str, place: str) -> None:
    rows = {"loop": "out", "forward": "h", "collate": "inputs"}[place]
    made = f"torch.stack([row * n for row, n in zip({rows}, {items})])"
    lines = f"loss = loss + {made}.pow(2).mean()" if place == "loop" else f"{rows} = {made}"
    verdict = trial.verdict(script(place, lines))
    allowed = (Outcome.SAME, Outcome.REFUSED) if place == "collate" else (Outcome.SAME,)
    assert verdict.outcome in allowed, verdict.detail


def test_a_function_of_rows_and_items(trial: Trial) -> None:
    made = "torch.stack(list(map(lambda row, n: row * n, out, range(100))))"
    verdict = trial.verdict(script("loop", f"loss = loss + {made}.pow(2).mean()"))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("items", ITEMS[:2])
def test_samples_and_items_one_by_one(trial: Trial, items: str) -> None:
    made = f"torch.stack([sample[0] * n for sample, n in zip(samples, {items})])"
    verdict = trial.verdict(script("collate", f"inputs = {made}"))
    assert verdict.outcome is Outcome.SAME, verdict.detail
