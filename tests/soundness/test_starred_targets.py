"""``first, *others = whole``: a starred name is the list of what the other names leave."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

IN_A_FORWARD = [
    "first, *others = [h, h * 2]\nh = first + others[0]",
    "*others, last = (h * 3, h, h * 2)\nh = last + others[1]",
    "a, *others, last = (h * 3, h, h * 2, h + 1)\nh = last + others[1] + others[0] * a",
    "a, *others = (h * 3, h, h * 2, h + 1)\nh = torch.stack(others).sum(0) + a",
    "a, *others = (h * 3, h.mean(), h * 2)\nh = others[0] * a + others[1]",
]
IN_THE_LOOP = [
    "*others, last = out, targets, 2 * out\n"
    "loss = loss + last.pow(2).mean() + others[0].mean() + others[1].std()",
    "a, *others = (out, targets, labels)\nloss = loss + len(others) * a.mean()\n"
    "print(len(others), others[1].sum().item())",
    "both = []\nboth.append(targets)\nboth.append(out)\na, *others = both\n"
    "loss = loss + len(others) * (a - others[0]).mean()",
    "pair = (inputs.sum(), out.mean())\na, *others = inputs.mean(), *pair\n"
    "loss = loss * (1 + a + others[0] + others[1])",
    "pair = (inputs.sum(), out.mean())\na, b, c = inputs.mean(), *pair\n"
    "loss = loss * (1 + a + b + c)",
    "n, *shape = out.shape\nloss = loss + (out - torch.ones(n, *shape)).pow(2).mean()",
]


@pytest.mark.parametrize("lines", IN_A_FORWARD)
def test_parts_of_what_a_forward_made(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("forward", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("lines", IN_THE_LOOP)
def test_parts_of_what_a_loop_made(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
