"""Fixes that are called safe: a fixed script runs on two ranks as before or better."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ddpify.lint import fixer
from ddpify.lint.config import Settings
from ddpify.lint.diagnostics import Diagnostic
from ddpify.lint.engine import lint
from ddpify.lint.files.document import Document
from tests.lint.fix_scripts import FixScript, scripts

WORKER = Path(__file__).with_name("fix_worker.py")
SCRIPTS = list(scripts())
PRINTS_MORE = {"DDP712"}  # what rank 0 is meant to print, which no rank did


def _fixed(script: FixScript, folder: Path) -> str:
    def check(text: str) -> list[Diagnostic]:
        document = Document(str(folder / "train.py"), text.encode())
        result = lint(document, Settings(root=folder, select=(script.code,)))
        assert result.failure is None, result.failure
        return list(result.found)

    text, _ = fixer.fix_until_stable(script.text, check, unsafe=False, compiles=lambda _: True)
    again, count = fixer.fix_until_stable(text, check, unsafe=False, compiles=lambda _: True)
    assert (again, count) == (text, 0), "a second --fix changes something"
    return text


Outcome = list[dict[str, Any]]  # of each rank: its error, what it printed, the files


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The scripts that safe fixes change, after them."""
    folder = tmp_path_factory.mktemp("fixed")
    made = {one.name: _fixed(one, folder) for one in SCRIPTS}
    return {one.name: made[one.name] for one in SCRIPTS if made[one.name] != one.text}


@pytest.fixture(scope="module")
def outcomes(
    fixed: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Outcome | None, Outcome]]:
    """What the ranks did, before (None where that hangs) and after the fixes."""
    folder = tmp_path_factory.mktemp("runs")
    changed = [one for one in SCRIPTS if one.name in fixed]
    for number, one in enumerate(changed):
        if not one.hangs:
            (folder / f"before{number:03}.py").write_text(one.text)
        (folder / f"fixed{number:03}.py").write_text(fixed[one.name])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        command = [sys.executable, str(WORKER), str(folder)]
        port = str(free.getsockname()[1])
    ranks = [subprocess.Popen([*command, str(rank), port]) for rank in (0, 1)]
    try:
        assert [rank.wait(timeout=400) for rank in ranks] == [0, 0]
    finally:
        for rank in ranks:
            rank.kill()
    done = [json.loads((folder / f"rank{rank}.json").read_text()) for rank in (0, 1)]

    def of(name: str) -> Outcome | None:
        return [one[name] for one in done] if name in done[0] else None

    found = {}
    for number, one in enumerate(changed):
        after = of(f"fixed{number:03}")
        assert after is not None
        found[one.name] = (of(f"before{number:03}"), after)
    return found


def test_each_rule_has_a_script_that_is_fixed(fixed: dict[str, str]) -> None:
    assert {one.code for one in SCRIPTS if one.name in fixed} == {one.code for one in SCRIPTS}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda one: one.name)
def test_a_fixed_script_runs_as_before_or_better(
    script: FixScript, outcomes: dict[str, tuple[Outcome | None, Outcome]]
) -> None:
    if script.name not in outcomes:
        return  # no fix is offered here
    before, after = outcomes[script.name]
    if before is None or any(one["error"] for one in before):
        assert [one["error"] for one in after] == [None, None]
        return
    assert [one["error"] for one in after] == [None, None]
    assert [one["files"] for one in after] == [one["files"] for one in before]
    if script.code not in PRINTS_MORE:
        assert [one["printed"] for one in after] == [one["printed"] for one in before]
