"""Lists under the labels of a batch's samples, which are filled sample by sample."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

PAIRS = "zip(labels.tolist(), out.sum(1))"
FILLED = [
    f"[table[c].append(v) for c, v in {PAIRS}]",
    f"list(table[c].append(v) for c, v in {PAIRS})",
    f"for c, v in {PAIRS}:\n    found = table[c]\n    found.append(v)",
    f"for c, v in {PAIRS}:\n    c and table[c].append(v)",
    f"for c, v in {PAIRS}:\n    table[c].append(v) if c else None",
]


@pytest.mark.parametrize("filled", FILLED)
def test_they_hold_the_samples_of_all_ranks(trial: Trial, filled: str) -> None:
    lines = f"table = collections.defaultdict(list)\n{filled}\n"
    read = "print(sorted((c, len(v)) for c, v in table.items()))\n"
    used = "loss = loss + 0.1 * sum(torch.stack(v).mean() for v in table.values())"
    verdict = trial.verdict(script("loop", lines + read + used))
    assert verdict.outcome is Outcome.SAME, verdict.detail
