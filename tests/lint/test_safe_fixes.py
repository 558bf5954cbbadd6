"""Fixes that are called safe: a fixed script runs on two ranks as before or better."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.lint import fixer
from ddpify.lint.config import Settings
from ddpify.lint.diagnostics import Diagnostic
from ddpify.lint.engine import lint
from ddpify.lint.files.document import Document
from tests.lint.fix_scripts import FixScript, scripts
from tests.training_runs import Training, TrainingRuns

SCRIPTS = list(scripts())
PRINTS_MORE = {"DDP712"}  # what rank 0 is meant to print, which no rank did
SECONDS = 60.0


def _fixed(script: FixScript, folder: Path) -> str:
    """The script after its rule's safe fixes, which a second time change nothing."""

    def check(text: str) -> list[Diagnostic]:
        document = Document(str(folder / "train.py"), text.encode())
        result = lint(document, Settings(root=folder, select=(script.code,)))
        assert result.failure is None, result.failure
        return list(result.found)

    text, _ = fixer.fix_until_stable(script.text, check, unsafe=False, compiles=lambda _: True)
    again, count = fixer.fix_until_stable(text, check, unsafe=False, compiles=lambda _: True)
    assert (again, count) == (text, 0), "a second --fix changes something"
    return text


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The scripts that safe fixes change, after them."""
    folder = tmp_path_factory.mktemp("fixed")
    made = {one.name: _fixed(one, folder) for one in SCRIPTS}
    return {one.name: made[one.name] for one in SCRIPTS if made[one.name] != one.text}


def _run(runs: TrainingRuns, folder: Path, text: str) -> Training:
    script = folder / "train.py"
    script.write_text(text)
    return runs.run(script, 2, deadline=SECONDS)


def test_each_rule_has_a_script_that_is_fixed(fixed: dict[str, str]) -> None:
    assert {one.code for one in SCRIPTS if one.name in fixed} == {one.code for one in SCRIPTS}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda one: one.name)
def test_a_fixed_script_runs_as_before_or_better(
    script: FixScript, fixed: dict[str, str], runs: TrainingRuns, tmp_path: Path
) -> None:
    if script.name not in fixed:
        return  # no fix is offered here
    after = _run(runs, tmp_path, fixed[script.name])
    assert [one.status for one in after.ranks] == [0, 0], after.ranks[0].stderr
    if script.hangs:
        return
    before = _run(runs, tmp_path, script.text)
    if any(one.status for one in before.ranks):
        return
    assert after.files.keys() == before.files.keys()
    if script.code not in PRINTS_MORE:
        assert [one.stdout for one in after.ranks] == [one.stdout for one in before.ranks]
