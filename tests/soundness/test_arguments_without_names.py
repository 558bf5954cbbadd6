"""Rows that a function gets from an expression, and that a branch there takes some of."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

FUNCTIONS = [
    "def f(l):\n    if len(l) > 3:\n        l, _ = l.topk(3)\n    return l.mean()",
    "def f(l, ratio=0.7):\n    s, index = torch.sort(l, descending=True)\n"
    "    keep = min(s.size(0), int(l.size(0) * ratio))\n    if keep < s.size(0):\n"
    "        l = l[index[:keep]]\n    return l.sum() / keep",
    "def f(l):\n    if epoch > 0:\n        l = l.sort()[0][:2]\n    return l.mean()",
]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("rows", ["F.cross_entropy(out, labels, reduction='none')", "out.sum(1)"])
def test_they_are_gathered_where_they_are_given(trial: Trial, function: str, rows: str) -> None:
    verdict = trial.verdict(script("loop", f"{function}\nloss = loss + f({rows})"))
    assert verdict.outcome is Outcome.SAME, verdict.detail
