"""Samples that iterators, starred arguments and lists give by their places."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

COLLATED = [
    "r = inputs * next(iter(inputs))",
    "it = iter(samples)\nnext(it)\nr = inputs - next(it)[0].mean()",
    "r = inputs - next(zip(inputs, targets))[0] + next(enumerate(inputs))[1]",
    "first = lambda a, *others: a\nr = inputs - first(*inputs)",
    "last = lambda *rows: rows[-1]\nr = inputs - last(*samples)[0].mean()",
    "d = list(inputs)\nr = inputs - d.pop()",
    "d = collections.deque(inputs)\nr = inputs - d.popleft()",
    "r = inputs - torch.stack([*inputs]).mean(0)",
    "r = inputs.msort()",
]


@pytest.mark.parametrize("lines", COLLATED)
def test_a_collate_function_takes_samples_of_the_whole_batch(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("collate", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


SPREAD = [
    ("loop", "a = [*out]\nloss = torch.stack([v * 2 for v in a]).pow(2).mean()"),
    ("loop", "a = (*out,)\nloss = loss + torch.stack(a).mean(0).pow(2).sum()"),
    ("forward", "h = h - torch.stack([*h.unbind(0)]).mean(0)"),
]


@pytest.mark.parametrize(("place", "lines"), SPREAD)
def test_a_list_of_spread_rows_has_one_for_each(trial: Trial, place: str, lines: str) -> None:
    verdict = trial.verdict(script(place, lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


LONGER = [
    "a = list(out)\na.append(out[0])\nprint(len(a))\nloss = loss + torch.stack(a).pow(2).mean()",
    "a = [v * 2 for v in labels.tolist()]\na.extend([1, 2])\nprint(sum(a))",
    "a = [*labels.tolist()]\na.insert(0, 3)\nprint(a)",
]


@pytest.mark.parametrize("lines", LONGER)
def test_a_list_that_gets_more_items_has_those_of_all_ranks(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


def test_rows_that_are_cut_in_place_are_those_of_all_ranks(trial: Trial) -> None:
    lines = "z = out.detach().clone()\nz.resize_(1, 4)\nloss = loss * z.mean()"
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
