"""Calls of a function past those that are told apart are interpreted together."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.planning.refusals import Refusal
from ddpify.source import read_source
from ddpify.understanding import merged_calls
from ddpify.understanding.interpreter import Interpreter
from ddpify.understanding.project import Project
from ddpify.understanding.run_state import state
from tests.convert.examples import HEAD, STEP, added, convert_text

SCALED = "def scaled(x, by):\n    print(x.sum().item())\n    return torch.relu(x) * by\n\n\n"
EITHER = "def scaled(x, by):\n    return x * by if by > 3 else 1.0\n\n\n"


@pytest.fixture(autouse=True)
def few_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were few: programs with more take longer to convert, and show no more."""
    monkeypatch.setattr(state, "EXACT", merged_calls.Bounds(8, 4))


def calls(number: int, of: str = "a") -> str:
    return "".join(f"    {of} = scaled({of}, {n}.5)\n" for n in range(number))


def in_step(lines: str) -> str:
    return STEP.replace("    rule.zero_grad()\n", lines + "    rule.zero_grad()\n")


def test_rows_are_followed_through_calls_that_are_taken_together(tmp_path: Path) -> None:
    few = added(tmp_path, HEAD + SCALED + in_step(calls(3)))
    many = added(tmp_path, HEAD + SCALED + in_step(calls(20)))
    assert "print(dd.sum(x.sum()).item())" in many
    assert few == many


def test_no_more_bodies_than_are_told_apart(tmp_path: Path) -> None:
    steps = []
    for number in (20, 40):
        script = tmp_path / "train.py"
        script.write_text(HEAD + SCALED + in_step(calls(number)))
        project = Project(read_source(script))
        Interpreter(project).one_pass()
        steps.append(project.budget.used)
    assert steps[1] - steps[0] < 20 * 6  # which are the arguments of 20 calls, not bodies


def test_rows_and_what_is_whole_are_told_apart(tmp_path: Path) -> None:
    whole = calls(16, "whole").replace("    whole", "whole") + "print(whole)\n"
    text = HEAD + SCALED.replace("    print(x.sum().item())\n", "") + in_step(calls(16))
    lines = added(tmp_path, text + "whole = torch.ones(4, 4)\n" + whole)
    assert "penalty = dd.mean(F.cross_entropy(brain(a), b))" in lines
    assert not any("gather" in line or "dd.sum" in line for line in lines)


def test_a_result_that_is_a_part_in_some_calls_alone_is_refused(tmp_path: Path) -> None:
    text = HEAD + EITHER + in_step("".join(f"    c = scaled(a, {n})\n" for n in range(16)))
    with pytest.raises(Refusal, match=r"scaled\(\) is called in more ways than ddpify tells apart"):
        convert_text(tmp_path, text)
