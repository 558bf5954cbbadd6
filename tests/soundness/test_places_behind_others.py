"""Places of rows, counted from those of the batches before: each rank's are those of all."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

BANK = "torch.zeros(8, 4)"
LINES = [
    (BANK, "at = (torch.arange(n) + seen) % 8\nbank[at] = out.detach()"),
    (BANK, "at = torch.arange(n).add(seen).remainder(8)\nbank[at] = out.detach()"),
    (BANK, "at = (torch.arange(n) + seen) % 8\nbank.index_copy_(0, at, out.detach())"),
    (BANK, "at = (seen + torch.arange(len(out))) % 8\nbank[at] += out.detach()"),
    ("torch.zeros(30, 4)", "bank[torch.arange(n) + seen] = out.detach()"),
    (
        "torch.arange(32.0).view(8, 4) / 32",
        "loss = loss + (out * bank[(torch.arange(n) + seen) % 8]).mean()",
    ),
    ("torch.ones(8, 4)", "at = torch.arange(n) + seen\nloss = loss + (out * at[:, None]).mean()"),
]


@pytest.mark.parametrize(("bank", "lines"), LINES)
@pytest.mark.parametrize("seen", ["0", "torch.zeros(1, dtype=torch.long)"])
def test_they_are_those_of_all_ranks(trial: Trial, seen: str, bank: str, lines: str) -> None:
    loop = f"n = len(out)\n{lines}\nseen += n\nloss = loss + (out @ bank.T).pow(2).mean()"
    text = script("loop", loop).replace("for epoch", f"bank, seen = {bank}, {seen}\nfor epoch", 1)
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail
