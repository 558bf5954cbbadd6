"""Collate functions whose lists take several items of each sample, or pair each with all others."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

CUT = "\ninputs = torch.stack(items)[:len(samples)]"
SEVERAL = [
    "items = []\nfor s in samples:\n    items.append(s[0])\n    items.append(s[0] * 2)",
    "items = []\nfor s in samples:\n    items += [s[0], s[0] * 3]",
    "items = []\nfor s in samples:\n    items.extend([s[0], s[0] * 3])",
    "items = []\nfor s in samples:\n    for view in (s[0], s[0] * 2):\n        items.append(view)",
    "items = [s[0] for s in samples for _ in range(2)]",
    "items = []\nfor s in samples:\n    for t in samples:\n        items.append(s[0] + t[0])",
    "items = []\nfor s in samples:\n    for t in samples:\n        items.append(s[0] * 2)",
    "items = [s[0] + t[0] for s in samples for t in samples]",
    "items = [torch.stack([s[0] + t[0] for s in samples]).sum(0) for t in samples]",
]
ONE_EACH = [
    "items = []\nfor s in samples:\n    if s[0][0] > 0:\n        items.append(s[0])\n"
    "    else:\n        items.append(s[0] * 2)",
    "items = []\nfor s in samples:\n    if s[0][0] > 0:\n        items.append(s[0])\n"
    "        continue\n    items.append(s[0] * 2)",
    "items = []\nfor i in range(len(samples)):\n    own = samples[i][0]\n"
    "    own = torch.cat([own[:2], own[2:] * 2])\n    items.append(own[own.argsort()])",
    "items = []\nfor i in range(len(samples)):\n    own = samples[i][0]\n"
    "    own = torch.stack([own, own], 1)\n    items.append(own[own[:, 0].argsort()].mean(1))",
]
VIEWS = """\
items, goals_ = [], []
for s in samples:
    for view in (s[0], s[0].flip(0)):
        items.append(view)
        goals_.append(s[1])
inputs, targets = torch.stack(items), torch.stack(goals_)
labels = labels.repeat_interleave(2)
"""


@pytest.mark.parametrize("lines", SEVERAL)
def test_the_first_items_are_not_those_of_the_first_samples(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("collate", lines + CUT))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("lines", ONE_EACH)
def test_one_item_of_each_is_a_row_of_each(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("collate", f"{lines}\ninputs = torch.stack(items)"))
    assert verdict.outcome is Outcome.SAME, verdict.detail


def test_two_views_of_each_are_trained_on(trial: Trial) -> None:
    verdict = trial.verdict(script("collate", VIEWS))
    assert verdict.outcome is Outcome.SAME, verdict.detail
