"""What an assertion asks of a rank's own rows is asked of no other rank where that is enough."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.trying import Trial
from ddpify.convert import convert_file
from tests.soundness.known_forms import script

OF_EACH_RANK = [
    "assert h.max() < 10",
    "assert torch.max(h).item() <= 10 and h.min() > -10",
    "assert not torch.isnan(h).any()",
    "assert torch.isfinite(h).all()",
    "assert (2 * h).amax().item() < h.shape[1] + 10",
]
OF_ALL_RANKS = [
    "assert h.max() > -10",
    "assert h.max() < h.max() + 1",
    "assert h.mean() < 10",
    "assert h.max() < 10 or h.min() > -10",
]
# One table of classes is asked for with a rank's labels and with classes that all ranks hold.
SHARED = """
def one_hot(index):
    assert torch.max(index).item() < 4
    return F.one_hot(index, 4).double()
"""


@pytest.mark.parametrize("lines", [*OF_EACH_RANK, *OF_ALL_RANKS])
def test_scripts_train_the_same(trial: Trial, lines: str) -> None:
    verdict = trial.verdict(script("forward", lines))
    assert verdict.outcome is Outcome.SAME, verdict.detail


@pytest.mark.parametrize("lines", OF_EACH_RANK)
def test_an_assertion_of_each_rank_stays_as_it_is(tmp_path: Path, lines: str) -> None:
    path = tmp_path / "script.py"
    path.write_text(script("forward", lines))
    assert f" {lines}\n" in convert_file(path).data.decode()


@pytest.mark.parametrize("lines", OF_ALL_RANKS[:3])
def test_another_one_is_asked_of_all(tmp_path: Path, lines: str) -> None:
    path = tmp_path / "script.py"
    path.write_text(script("forward", lines))
    assert f" {lines}\n" not in convert_file(path).data.decode()


def test_a_function_asserts_of_rows_and_of_what_all_ranks_hold(trial: Trial) -> None:
    text = script("loop", "loss = loss + one_hot(labels).mean() + one_hot(torch.arange(4)).sum()")
    verdict = trial.verdict(
        text.replace("\ntorch.manual_seed", SHARED + "\n\ntorch.manual_seed", 1)
    )
    assert verdict.outcome is Outcome.SAME, verdict.detail
