"""Rows put under those of all ranks in a list that is made elsewhere than in the call."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

SOME = "o = [v[None] for v in out if v[0] > 0]\n"
LISTS = [
    SOME + "r = torch.cat(o + [out]).cumsum(0)",
    SOME + "r = torch.cat([out] + o).cumsum(0)",
    SOME + "r = torch.vstack(o + [out, out * 2]).cumsum(0)",
    SOME + "o.append(out)\nr = torch.cat(o).cumsum(0)",
    SOME + "o += [out]\nr = torch.cat(o).cumsum(0)",
    SOME + "o.extend([out])\nr = torch.cat(o) ** 2",
    "o = [v[None] for v in out]\nr = torch.cat(o + [out]).cumsum(0)",
    "o = [out.softmax(0)]\no.append(out)\nr = torch.cat(o).cumsum(0)",
    "o = (out.flip(0),)\nr = torch.cat(o + (out,)) ** 2",
    'o = {"a": out.softmax(0)}\no["b"] = out\nr = torch.cat(list(o.values())).cumsum(0)',
]


@pytest.mark.parametrize("lines", LISTS)
def test_rows_under_those_of_all_ranks(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", f"{lines}\nloss = loss + r.mean()"))
    assert verdict.outcome is Outcome.SAME, verdict.detail


def test_rows_without_a_name_are_refused(trial: Trial) -> None:
    lines = f"{SOME}r = torch.cat(o + [targets]).cumsum(0)\nloss = loss + r.mean() * out.mean()"
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.REFUSED, verdict.detail
