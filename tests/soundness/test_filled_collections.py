"""Collections that a loop over the samples fills, in whatever way, and that become a tensor."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

LOOP = "for i, row in enumerate(ROWS):\n    "
FILLED = [
    f"items = []\n{LOOP}items += [row + i]",
    f"items = []\n{LOOP}items.insert(0, row + i)",
    f"items = []\n{LOOP}items.extend([row + i])",
    f"items = []\n{LOOP}items = [*items, row + i]",
    f"items = ()\n{LOOP}items += (row + i,)",
    f"items = ()\n{LOOP}items = (*items, row + i)",
    f"items = collections.deque()\n{LOOP}items.appendleft(row + i)\nitems = list(items)",
    f"items = {{}}\n{LOOP}items[i] = row + i\nitems = list(items.values())",
    f"items = []\nput = items.append\n{LOOP}put(row + i)",
    f"def each():\n    {LOOP.strip()}\n        yield row + i\nitems = list(each())",
    "items = sorted(ROWS, key=lambda row: row.sum().item())",
    "items = sorted(ROWS.unbind(0), key=lambda row: row.sum().item())",
]


@pytest.mark.parametrize("filled", FILLED)
def test_it_has_something_of_each_sample_of_all_ranks(trial: Trial, filled: str) -> None:
    lines = f"{filled.replace('ROWS', 'h')}\nh = torch.stack(items)"
    verdict = trial.verdict(script("forward", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("filled", [FILLED[0], FILLED[4], FILLED[8], FILLED[10]])
def test_so_it_has_in_a_training_loop(trial: Trial, filled: str) -> None:
    lines = f"{filled.replace('ROWS', 'out')}\nloss = F.mse_loss(torch.stack(items), targets)"
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


def test_a_list_with_layers_results_is_left_to_each_rank(trial: Trial) -> None:
    lines = "items = []\nfor i in range(3):\n    items.append(h * i)\nh = torch.stack(items).sum(0)"
    text = script("forward", lines)
    assert trial.verdict(text).outcome is Outcome.SAME
    converted = trial.converted(text)
    assert isinstance(converted, str)
    assert "dd.gather" not in converted
