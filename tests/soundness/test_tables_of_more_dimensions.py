"""Tensors that all ranks hold, of more dimensions than the rows that meet them.

The rows lie along a later dimension of what they make together.
"""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

_TABLE = "torch.linspace(0, 1, 12).view(3, 1, 4)"
TABLES = [
    f"{_TABLE} > 0.5",
    f"~({_TABLE} < 0.5)",
    f"torch.gt({_TABLE}, 0.5).double()",
    f"torch.isclose({_TABLE}, torch.tensor(0.0))",
    f"-{_TABLE}",
    f"{_TABLE}.round().bool()",
    f"torch.from_numpy({_TABLE}.numpy() > 0.5)",
    f"torch.ones_like({_TABLE}).fill_(0.5)",
    "torch.linspace(0, 1, 3)[:, None, None]",
    "torch.linspace(0, 1, 12).unflatten(0, (3, 1, 4))",
    "torch.stack([torch.linspace(0, 1, 4), torch.ones(4)])[:, None]",
    "torch.cat([torch.eye(4)[:, None], torch.ones(2, 1, 4)])",
    "model.weight[:, None, :4].detach()",
]


@pytest.mark.parametrize("table", TABLES)
def test_rows_beside_a_table_of_more_dimensions(trial: Trial, table: str) -> None:
    lines = f"table = {table}\nloss = (out * table - targets).pow(2).mean(1).sum()"
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


def test_rows_where_a_table_of_more_dimensions_says_so(trial: Trial) -> None:
    lines = f"loss = torch.where({_TABLE} > 0.5, out, targets).pow(2).mean(1).sum()"
    verdict = trial.verdict(script("loop", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail
