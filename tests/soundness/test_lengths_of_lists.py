"""Lists that have something for each row, but nothing of it: their length tells of all rows.

So does what a loop prints in each of its rounds.
"""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

LINES = [
    "print([len(row) for row in out])",
    "print(*[row.dim() for row in out])",
    "print(tuple(row.shape for row in out), list(map(len, out)))",
    "print([(row.dim(), len(out)) for row in out])",
    "print([1 for row in out if len(row) == 4])",
    "import json\nprint(json.dumps([len(row) for row in out]))",
    "sizes = {'of': [len(row) for row in out]}\nprint(sizes)",
    "loss = loss * (2 if [len(row) for row in out] == [4] * 5 else 1)",
    "loss = loss * [len(row) for row in out].count(4)",
    "first, *others = [len(row) for row in out]\nprint(first, others)",
    "print([len(row) for row in out][:3])",
    "for row in out:\n    print('row')",
    "def show(row):\n    print(len(row))\nfor row in out:\n    show(row)",
]


@pytest.mark.parametrize("lines", LINES)
def test_what_says_how_many_rows_there_are(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


PIECES = [
    "print(len(out.unbind(1)), len(out.chunk(2, dim=1)), len(torch.split(out, 2, -1)))",
    "parts = out.tensor_split(2, 1)\nloss = loss * len(parts)",
    "parts = torch.unbind(out, -1)\nloss = loss + sum(one.mean() for one in parts) / len(parts)",
    "for i in range(len(out.unbind(1))):\n    loss = loss + i * out[:, i].mean()",
    "made = torch.autograd.grad(out.sum(), [out], retain_graph=True)\nloss = loss + len(made)",
]


@pytest.mark.parametrize("lines", PIECES)
def test_pieces_along_another_dimension_are_no_rows(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
