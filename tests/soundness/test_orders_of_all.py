"""Orders of the samples that are drawn, or found by sorting: those of all ranks, on every rank."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

DRAWN = "p = torch.randperm(len(h), generator=torch.Generator().manual_seed(3))\n"
LISTED = DRAWN + "p = p.tolist()\n"
TAKEN = [
    DRAWN + "r = 0\nfor i in p:\n    r = 0.5 * r + h[i]",
    LISTED + "r = 0\nfor i in p:\n    r = 0.5 * r + h[i]",
    LISTED + "r = torch.stack([h[i] for i in p]) * inputs",
    LISTED + "r = torch.stack([one * h[i] for one, i in zip(h, p)])",
    LISTED + "r = torch.stack([h[i] * h[j] for i, j in enumerate(p)])",
    LISTED + "r = torch.stack([h[i] for i in sorted(p)]) * inputs",
    LISTED + "r = h * torch.tensor(p)[:, None]",
    DRAWN + "r = h * p[:, None]",
    DRAWN + "r = h.sum(1) * p.double()",
    DRAWN + "r = h * (p < 2).unsqueeze(1)",
    DRAWN + "r = h[p % 2 == 0]",
    DRAWN + "r = torch.where(p[:, None] > 1, h, inputs)",
    DRAWN + "r = h[p[: len(p) // 2 + 1]]",
    DRAWN + "r = h / p.shape[0] * p.numel()",
]
READ = [
    DRAWN + "print(p)",
    DRAWN + "print(p.tolist(), p.shape, len(p))",
    DRAWN + "kept = [1]\nkept.append(p)\nprint(kept[1][0])",
    LISTED + "print(sum(p), len(p), min(p), p.index(0))",
    LISTED + "print(sorted(p))",
    LISTED + "kept = []\nkept.extend(p)\nprint(kept)",
    DRAWN + "if p[0] > 1:\n    loss = loss * 2",
    "p = torch.argsort(h.sum(1))\nprint(p, len(p))",
]


@pytest.mark.parametrize("place", ["loop", "forward"])
@pytest.mark.parametrize("lines", TAKEN)
def test_rows_beside_an_order(trial: Trial, lines: str, place: str) -> None:
    if place == "loop":
        lines = f"h = out\n{lines}\nloss = loss + 0.1 * r.double().mean()"
    else:
        lines = f"{lines}\nh = h + 0.1 * r.double().mean()"
    verdict = trial.verdict(script(place, lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("lines", READ)
def test_orders_that_are_read(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", f"h = out\n{lines}"))
    assert verdict.outcome is Outcome.SAME, verdict.detail
