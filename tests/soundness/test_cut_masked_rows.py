"""Rows that masks leave, cut by a number of rows, or joined before something goes by their order.

A rank's mask leaves its own number of rows, which cuts others than that of all ranks; and what
ranks have left of two tensors, one behind the other, is not in the order of one process.
"""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

LEFT = "z = out[targets[:, 0] > 0]\n"
CUT = [
    "r = z[:len(z)]",
    "r = out[:len(z)]",
    "r = out[:z.size(0)]",
    "r = out[len(z):]",
    "r = z[:inputs.shape[0]]",
    "r = z[-len(inputs):]",
    "r = out[:(targets[:, 0] > 0).sum()]",
    "r = torch.masked_select(out, targets > 0)[:len(inputs)]",
    "r = out[(targets[:, 0] > 0).nonzero().squeeze(1)][:len(inputs)]",
    "r = out[:len(torch.where(targets[:, 0] > 0)[0])]",
    "r = out[:len(torch.unique(labels))]",
    "r = torch.cat([z, out])[:len(inputs)]",
    "r = torch.cat([out, z])[:len(inputs)]",
]

PARTS = "a, b = out[labels < 2], out[labels > 1]\n"
JOINED = [
    "r = torch.cat([a, b]).cumsum(0)",
    "r = torch.cat([a, b])[0]",
    "r = torch.cat([out, a])[:3]",
    "z = torch.cat([a, b])\nr = (z[1:] - z[:-1]) ** 2",
    "r = torch.cat([out[labels == j] for j in range(4)])[:len(inputs)] * targets",
    "r = torch.hstack([out[labels == j, 0] for j in range(4)]).cumsum(0)",
    "z = []\nfor j in range(4):\n    z.append(out[labels == j])\nr = torch.cat(z).cumsum(0)",
    "z = []\nz += [a, b]\nr = torch.cat(z).cumsum(0)",
    "z = {j: out[labels == j] for j in range(4)}\nr = torch.cat(list(z.values())).cumsum(0)",
    "z = torch.zeros(0, 4)\nfor j in range(4):\n    z = torch.cat([z, out[labels == j]])\n"
    "r = z.cumsum(0)",
]


@pytest.mark.parametrize("lines", CUT)
def test_a_number_of_rows_that_cuts_is_that_of_all(trial: Trial, lines: str) -> None:
    _is_the_same(trial, "loop", f"{LEFT}{lines}\nloss = loss + r.mean()")


@pytest.mark.parametrize("lines", JOINED)
def test_rows_are_joined_in_the_order_of_one_process(trial: Trial, lines: str) -> None:
    _is_the_same(trial, "loop", f"{PARTS}{lines}\nloss = loss + r.mean()")


@pytest.mark.parametrize("lines", ["r = z[:len(inputs)]", "r = h[len(z):]", "r = h[:len(z)]"])
def test_so_are_they_in_a_forward(trial: Trial, lines: str) -> None:
    _is_the_same(trial, "forward", f"z = h[inputs[:, 0] > 0]\n{lines}\nh = h + r.sum()")


def _is_the_same(trial: Trial, place: str, lines: str) -> None:
    verdict = trial.verdict(script(place, lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
