"""Python tells a batch's samples apart: by parameters, iterators, targets, sets and defaults."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

SPREAD = [
    "def far(first, *rest):\n    return sum((first - one).pow(2).sum() for one in rest)\n"
    "def count(*rows):\n    return len(rows)\nloss = loss * count(*out) + far(*out)",
    "(a, *_), (b, *_) = out, targets\n[c, *rest] = out\nloss = loss + (a - b * c).pow(2).sum()",
]
ITERATED = [
    "it = iter(out)\nfirst = next(it)\nloss = loss + sum((o - first).pow(2).sum() for o in it)\n"
    "it = iter(list(targets))\nfirst = next(it)\nloss = loss + sum((o - first).sum() for o in it)",
    "found = next(filter(lambda row: row.sum() > 0, out), out[0])\n"
    "other = next((row for row in out if row.sum() > 99), out.amax(0))\n"
    "loss = loss + found.pow(2).sum() + other.sum()",
]
READ = [
    "seen = frozenset(labels.tolist()) & {0, 1}\nleft = {0, 1}.difference(labels.tolist())\n"
    "loss = loss * (1 + len(seen)) * (1 + len(left)) + {}.pop('a', out.std())",
    "seen, all_ = set(), set()\nseen.update(labels.tolist())\nall_ |= set(labels.tolist())\n"
    "loss = loss * len(seen) * (1 + {0, 1}.issubset(labels.tolist())) * len(all_)",
    "some, half = slice(1, len(out)), slice(0, len(out) // 2)\n"
    "loss = loss + out[some].pow(2).sum() + out[half].sum()",
    "table = torch.arange(20.0)[: out.numel()] / 20\n"
    "loss = loss + F.mse_loss(out, table.view_as(out)) + F.mse_loss(out.flatten(), table)",
    "held = {}\nheld.update(zip(range(9), out))\nloss = loss + held[0].sum() ** 2",
]


@pytest.mark.parametrize("lines", [*SPREAD, *ITERATED, *READ])
def test_samples_are_told_apart_among_those_of_all(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
