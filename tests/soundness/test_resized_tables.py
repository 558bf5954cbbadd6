"""Tensors that get the size of a rank's rows hold what is written then, and nothing of before."""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

READ = [
    "table = torch.arange(20.0).resize_(out.shape)",
    "table = torch.arange(20.0).resize_as_(out)",
    "table = torch.arange(20.0)\ntable.resize_(len(out), 4)",
]
WRITTEN = [
    "table = torch.empty(0).resize_(len(out), 4).fill_(0.5)",
    "table = torch.empty(0)\ntable.resize_as_(out.detach()).copy_(targets)",
    "table = torch.empty(0)\ntable.resize_(out.shape)\ntable.copy_(targets)",
]
USE = "\nloss = loss + (out * table).mean()"


@pytest.mark.parametrize("lines", READ)
def test_what_they_held_is_not_read(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", f"{lines}{USE}"))
    assert verdict.outcome is Outcome.REFUSED, verdict.detail


@pytest.mark.parametrize("lines", WRITTEN)
def test_what_is_written_is_of_each_ranks_rows(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("loop", f"{lines}{USE}"))
    assert verdict.outcome is Outcome.SAME, verdict.detail
