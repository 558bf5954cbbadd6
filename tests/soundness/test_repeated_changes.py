"""What each round of a loop over a rank's rows changes once more, and what it takes by position."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.divided import assert_same_without_gathering
from tests.soundness.known_forms import script

LOOPS = [
    "r = 1.0\nfor _ in out:\n    r = r * 0.9",
    "r = 1.0\nfor _ in range(len(out)):\n    r *= 0.9",
    "r = 0\nfor _ in out:\n    r = r + 1",
    "a, r = 1.0, 0.5\nfor _ in out:\n    a, r = r, a",
    "w = model.weight\nfor _ in out:\n    w = w * 0.9\nr = w.pow(2).mean()",
    "w = torch.ones(4)\nfor _ in out:\n    w.mul_(0.9)\nr = (w * out).mean()",
    "w = {'a': 1.0}\nfor _ in out:\n    w['a'] *= 0.9\nr = out.mean() * w['a']",
    "w = [1.0]\nfor _ in out:\n    w[0] = w[0] * 0.9\nr = out.mean() * w[0]",
    "found = []\nfor _ in out:\n    found.append(1.0)\nr = 0.1 * len(found)",
    "text = ''\nfor _ in out:\n    text = text + 'x'\nr = 0.1 * len(text)",
    "first, r = True, 0.0\nfor row in out:\n    r = r + (2 if first else 1) * row.sum()\n"
    "    first = False",
    "for _ in out:\n    loss = loss * 0.99\nr = 0.0",
    "for _ in labels.tolist():\n    loss = loss + 0.01\nr = 0.0",
    "for _, label in zip(out, labels):\n    loss -= 0.01\nr = 0.0",
    "r = 0.0\nfor row in out:\n    r = 0.9 * r + row.sum()",
    "r = 0.1\nfor _ in out.unbind(0):\n    r /= 1.1",
    "r = 1.0\nfor _ in torch.split(out, 2):\n    r = r * 0.9",
    "r = 1.0\nfor _ in labels.unique():\n    r = r * 0.9",
    "import itertools\nn = itertools.count()\nfor _ in out:\n    r = next(n)",
    "import math\nr = math.prod(0.9 for _ in out)",
    "r = len(''.join('x' for _ in out))",
    "r = len({i: 1.0 for i in range(len(out))})",
    "r = len({c: i for i, c in enumerate(labels.tolist())})",
]
DIVIDED = [
    "found = []\nfor row in out:\n    found.append(row.sum())\nr = torch.stack(found).mean()",
    "z = torch.zeros_like(out)\nfor i in range(len(out)):\n    z[i] = out[i] * 2\nr = z.mean()",
]
AT_POSITIONS = [
    "w = torch.arange(16.0)\nr = sum(w[i] for i in range(len(out)))",
    "w = torch.arange(16.0)\nr = sum(w[i % 5].sum() for i in range(len(out)))",
    "w = torch.ones(16)\nr = (out.T * torch.stack([w[i] for i in range(len(out))])).mean()",
    "w = [0.1 * i for i in range(16)]\nr = sum(w[i // 2] for i in range(len(out)))",
    "w = {i: 0.1 * i for i in range(16)}\nr = sum(w.get(i, 0.0) for i in range(len(out)))",
    "r = sum(model.weight[i % 4].sum() for i in range(len(out)))",
]
FORWARDS = [
    "for _ in h:\n    h = h * 0.99",
    "s = self.body.bias\nfor _ in range(len(h)):\n    s = s * 0.9\nh = h + s",
    "h = h + sum(self.body.weight[i % 4].sum() for i in range(len(h)))",
    "for i, c in enumerate(h.argmax(1).tolist()):\n    h = h + self.body.weight[i % 4, c]",
]
COLLATES = [
    "n = 1.0\nfor _ in samples:\n    n *= 0.9\ninputs = inputs * n",
    "for _ in range(len(samples)):\n    inputs = inputs * 0.99",
]


@pytest.mark.parametrize("lines", LOOPS + AT_POSITIONS)
def test_rounds_are_those_of_all_rows(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", f"{lines}\nloss = loss + 0.01 * r"))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("lines", DIVIDED)
def test_rows_that_are_kept_stay_divided(trial: Trial, tmp_path: Path, lines: str) -> None:
    text = script("loop", f"{lines}\nloss = loss + 0.1 * r")
    assert_same_without_gathering(trial, tmp_path, text)


@pytest.mark.parametrize("lines", FORWARDS)
def test_so_it_is_in_a_forward(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("forward", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("lines", COLLATES)
def test_so_it_is_in_a_collate_function(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("collate", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
