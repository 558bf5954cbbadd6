"""Planted bugs are found, with their rule and their line; right scripts stay without a finding."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ddpify.checking import Report
from tests.checking.bugs import BUGS, Bug

Checked = Callable[..., tuple[Report, list[str]]]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(checked: Checked, bug: Bug) -> None:
    report, lines = checked(bug.script, *bug.edits)
    assert report.findings, report.failure
    first = report.findings[0]
    assert first.code in bug.code.split()
    assert report.exit_code == 1
    if bug.line:
        assert first.line is not None
        assert bug.line.strip() in lines[first.line - 1]


@pytest.mark.parametrize("nproc", [2, 3])
@pytest.mark.parametrize("script", ["sampled", "averaged", "accumulated"])
def test_a_right_script_has_no_finding(checked: Checked, script: str, nproc: int) -> None:
    report, _ = checked(script, nproc=nproc)
    assert report.failure is None
    padding = [one.code for one in report.findings]
    assert padding == (["DDP112"] if (script, nproc) == ("sampled", 3) else [])
    assert min(report.steps) > 2
