"""The larger of two tensors, of which all ranks hold one: it has a row for each sample.

`torch.max(x, 1)` goes along a dimension in its place.
"""

from __future__ import annotations

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from tests.soundness.known_forms import script

BOUND = "bound = torch.full((4,), 0.1)\n"
READ = [
    "r = torch.max(out, bound)[: len(out)]",
    "z = torch.min(out, bound)\nn = len(out)\nr = z[:n]",
    "r = torch.max(out, bound).narrow(0, 0, len(out))",
    "r = torch.min(out, bound) + 1\nr = r[: out.size(0)]",
    "at = torch.where(labels > 1)[0]\nr = torch.max(out, bound)\nr[at] = 2",
    "at = torch.where(labels > 1)\nr = torch.min(out, bound)\nr[at[0], :] = out[at[0]]",
    "r = torch.max(out, bound)\nr[labels > 1] = 2",
    "r = torch.min(out, bound)\nr.index_fill_(0, torch.where(labels > 1)[0], 2)",
    "z = torch.max(out, 1)\nr = z[0] + z.values",
]


@pytest.mark.parametrize("lines", READ)
def test_it_has_the_rows_of_a_rank(trial: Trial, lines: str) -> None:
    text = script("loop", f"{BOUND}{lines}\nloss = loss + r.mean()")
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail


_READ_BACK = "import pickle\nbound = pickle.loads(pickle.dumps({}))\n"
PERHAPS = [
    ("torch.tensor(0.1)", "r = torch.max(out, bound)[: len(out) // 2]"),
    ("torch.tensor(0.1)", "n = len(out)\nr = torch.min(out, bound)[n // 2 :]"),
    ("torch.tensor(0.1)", "r = out.max(bound)[: len(out) // 2]"),
    ("1", "r, at = torch.max(out, bound)\nprint((at == labels).sum().item())"),
    ("0", "r = torch.max(out, bound).values"),
]


@pytest.mark.parametrize(("bound", "lines"), PERHAPS)
def test_what_may_be_a_dimension_gets_the_rows_of_all_ranks(
    trial: Trial, bound: str, lines: str
) -> None:
    text = script("loop", f"{_READ_BACK.format(bound)}{lines}\nloss = loss + r.mean()")
    verdict = trial.verdict(text)
    assert verdict.outcome is Outcome.SAME, verdict.detail
