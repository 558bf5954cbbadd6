"""Positions beside rows of a forward of which a rank has no single stretch: all are gathered."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

MADE = [
    "z = torch.cat([h, inputs])",
    "z = h.repeat(2, 1)",
    "z = h.repeat_interleave(2, 0)",
    "z = torch.stack([h, h * 2], 1).flatten(0, 1)",
]
BESIDE = [
    "r = z * torch.arange(len(z))[:, None]",
    "r = z * torch.linspace(0, 1, len(z))[:, None]",
    "r = torch.where(torch.arange(len(z))[:, None] % 2 == 0, z, -z)",
    "r = z[torch.arange(len(z)) % 2 == 0]",
    "r = z[torch.arange(len(z)) < len(h)]",
    "r = z[torch.arange(len(z)), torch.arange(len(z)) % 4]",
    "r = torch.cat([z, torch.arange(len(z))[:, None]], 1)",
    "r = z * torch.tensor([float(i) for i in range(len(z))])[:, None]",
    "r = z * self.head.weight[torch.arange(len(z)) % 4]",
    "r = z * 1\nr *= torch.arange(len(z))[:, None]",
]
IN_TURNED = [
    "r = h.t() * torch.arange(len(h))",
    "r = torch.stack([h, h * 2]) * torch.arange(len(h))[:, None]",
    "z = torch.cat([h, h * 2]) * torch.arange(2 * len(h))[:, None]\na, r = z.chunk(2)\nr = a - r",
    "r = torch.stack([h, h * 2])[:, torch.arange(len(h)) % 2 == 0]",
    "z = torch.cat([h, h * 2])\nr = z * F.softmax(z, 0)",
]
WITHIN = [
    "r = h[torch.arange(len(h)), torch.arange(len(h)) % 4]",
    "r = h[torch.arange(len(h)), torch.arange(len(h)).remainder(4)]",
    "r = h.clone()\nr[torch.arange(len(r)), torch.arange(len(r)) % 4] = 0",
    "r = h[range(len(h)), [i % 4 for i in range(len(h))]]",
    "r = h[list(range(len(h))), [i % 4 for i in range(len(h))]]",
    "r = h * 1\nr[range(len(h)), [i % 4 for i in range(len(h))]] = 0",
    "s = h @ h.t()\nr = s[torch.arange(len(s)), torch.arange(len(s))]",
]


def _judge(trial: Trial, place: str, lines: str) -> None:
    verdict = trial.verdict(script(place, lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("made", MADE)
def test_positions_beside_several_rows(trial: Trial, made: str, beside: str) -> None:
    _judge(trial, "forward", f"{made}\n{beside}\nh = h + 0.1 * r.mean()")


@pytest.mark.parametrize("lines", IN_TURNED)
def test_positions_of_rows_behind_others(trial: Trial, lines: str) -> None:
    _judge(trial, "forward", f"{lines}\nh = h + 0.1 * r.mean()")


@pytest.mark.parametrize("lines", WITHIN)
@pytest.mark.parametrize("place", ["loop", "forward"])
def test_places_within_rows_by_their_positions(trial: Trial, lines: str, place: str) -> None:
    if place == "loop":
        _judge(trial, place, f"h = out\n{lines}\nloss = loss + 0.1 * r.mean()")
    else:
        _judge(trial, place, f"{lines}\nh = h + 0.1 * r.mean()")
