"""Recall: each pitfall, planted in a script that is right, is found; without it, nothing is."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpify.codes import CODES
from tests.lint.conftest import Lint
from tests.lint.mutants import MUTANTS, Mutant

RIGHT = Path(__file__).parent / "right"
SCRIPTS = {path.stem: path.read_text() for path in sorted(RIGHT.glob("*.py"))}

BEFORE: dict[tuple[str, bool], set[str]] = {}  # what is found without a pitfall, each once


def planted(mutant: Mutant) -> str:
    text = SCRIPTS[mutant.script]
    for old, new in mutant.changes:
        assert text.count(old) == 1, f"{old!r} must occur once in {mutant.script}.py"
        text = text.replace(old, new)
    return text


@pytest.fixture(autouse=True)
def recent_torch(tmp_path: Path) -> None:
    """A project that requires a PyTorch in which all old names are deprecated."""
    (tmp_path / "requirements.txt").write_text("torch>=2.13\n")


@pytest.mark.parametrize("name", SCRIPTS)
def test_right_scripts_are_clean(name: str, lint_text: Lint) -> None:
    found = lint_text(SCRIPTS[name])
    assert [one for one in found if not one.single] == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.code}-{m.script}")
def test_planted_pitfalls_are_found(mutant: Mutant, lint_text: Lint) -> None:
    key = (mutant.script, mutant.strict)
    if key not in BEFORE:
        BEFORE[key] = {one.code for one in lint_text(SCRIPTS[mutant.script], strict=mutant.strict)}
    found = {one.code for one in lint_text(planted(mutant), strict=mutant.strict)}
    assert mutant.code in found - BEFORE[key]


# Narrow idioms and hints, of which the examples on the rules' pages are test enough; and DDP004,
# which says nothing of a script but that its analysis was cut short: see test_unfinished.py.
NARROW = set(
    "DDP004 DDP118 DDP311 DDP315 DDP320 DDP322 DDP505 DDP512 DDP709 DDP802 DDP804 DDP904 DDP908"
    " DDP909 DDPF05 DDPF07 DDPF09 DDPF10".split()
)


def test_each_rule_has_a_mutant() -> None:
    planted_codes = {mutant.code for mutant in MUTANTS}
    assert sorted(set(CODES) - planted_codes - NARROW) == []
    assert not NARROW & planted_codes
