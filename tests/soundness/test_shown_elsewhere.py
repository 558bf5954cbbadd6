"""What a batch writes into a tensor that all ranks hold, by a name of its own or by ``out=``."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

MANUAL = "torch.manual_seed(905)"
VIEWS = [
    "row = t[0]\nrow += targets.mean(0)",
    "row = t[1:3]\nrow *= 0.9\nrow += targets.mean(0)",
    "column = t[:, 0]\ncolumn += targets.mean()",
    "for row in t:\n    row += targets.mean(0)",
    "for i, row in enumerate(t):\n    row += i * targets.mean(0)",
    "a, b = t[0], t[1]\na += targets.mean(0)\nb -= targets.mean(0)",
    "a, b, c, d = t\na += targets.mean(0)",
    "a, b = t.chunk(2)\na += targets.mean(0)",
    "a = t.diagonal()\na += targets.mean(0)",
    "a = t.view(-1)\na += targets.mean()",
    "a = t\na += targets.mean(0)",
    "a = t.detach()\na -= targets.mean(0)",
    "(a := t[0])\na += targets.mean(0)",
    "a = (lambda one: one[0])(t)\na += targets.mean(0)",
    "torch.add(targets.mean(0), inputs.mean(0), out=t[0])",
    "torch.mul(targets.mean(0), 2, out=t[1])",
    "a = t[0]\ntorch.exp(targets.mean(0), out=a)",
]
NAMED_BEFORE = [
    "a = t[0]\nt += targets.mean(0)",
    "rows = t.unbind(0)\nt += targets.mean(0)\na = rows[0]",
    "held = {'t': t}\nt += targets.mean(0)\na = held['t']",
    "held = []\nheld.append(t)\nt += targets.mean(0)\na = held[0]",
    "u = t.numpy()\nu += targets.numpy().mean(0)\na = t",
]
LOSSES = [
    "total = torch.zeros(())\ntotal += F.mse_loss(out, targets)\nloss = total",
    "total = torch.zeros(1)\nfor p in (1, 2):\n    total += ((out - targets) ** p).mean()\n"
    "loss = total.sum()",
    "loss = 0.01 * model.weight.norm()\nkept = loss.item()\nloss += F.mse_loss(out, targets)",
]


@pytest.mark.parametrize("write", VIEWS)
def test_what_is_added_to_a_view_is_that_of_all_rows(trial: Trial, write: str) -> None:
    text = script("loop", f"t = torch.zeros(4, 4)\n{write}\nloss = loss * (1 + t.sum())")
    _same(trial, text)


@pytest.mark.parametrize("write", VIEWS)
def test_so_it_is_in_what_outlives_the_batch(trial: Trial, write: str) -> None:
    text = script("loop", f"{write}\nloss = loss * (1 + t.sum())")
    _same(trial, text.replace(MANUAL, f"t = torch.zeros(4, 4)\n{MANUAL}", 1))


@pytest.mark.parametrize("write", NAMED_BEFORE)
def test_so_it_is_where_another_name_came_first(trial: Trial, write: str) -> None:
    lines = f"t = torch.zeros(4, 4)\n{write}\nloss = loss * (1 + a.sum())"
    _same(trial, script("loop", lines))


@pytest.mark.parametrize("place", ["loop", "forward"])
def test_a_function_that_adds_to_what_it_gets(trial: Trial, place: str) -> None:
    rows = {"loop": "targets", "forward": "h.detach()"}[place]
    lines = "def add(row, more):\n    row += more\n\n\nt = torch.zeros(2, 4)\n"
    lines += f"add(t[0], {rows}.mean(0))\n"
    lines += {"loop": "loss = loss * (1 + t.sum())", "forward": "h = h + t[0]"}[place]
    _same(trial, script(place, lines))


@pytest.mark.parametrize("lines", LOSSES)
def test_a_loss_that_nothing_else_shows_is_left_as_it_is(trial: Trial, lines: str) -> None:
    text = script("loop", lines)
    _same(trial, text)
    converted = trial.converted(text)
    assert isinstance(converted, str)
    assert "+= dd." not in converted


def _same(trial: Trial, text: str) -> None:
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail
