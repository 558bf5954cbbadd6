"""A finding, and its absence, need a path from the value to the act: scripts that differ in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lint.conftest import Lint
from tests.lint.evidence import RIGHT, WRONG, Case
from tests.lint.setups import SETUPS


def found(case: Case, lint_text: Lint) -> set[str]:
    return {one.code for one in lint_text(SETUPS[case.setup] + case.text)}


@pytest.mark.parametrize("name", RIGHT)
def test_right_code_is_not_reported(name: str, lint_text: Lint) -> None:
    assert RIGHT[name].code not in found(RIGHT[name], lint_text)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_code_is_reported(name: str, lint_text: Lint) -> None:
    assert WRONG[name].code in found(WRONG[name], lint_text)


def test_a_file_with_nothing_but_an_old_import_is_read(lint_text: Lint) -> None:
    (one,) = lint_text("import torch\nfrom torch._six import inf\n")
    assert (one.code, Path(one.path).name) == ("DDP907", "train.py")


TEST = SETUPS["distributed"] + "\ndef test_saves():\n    torch.save(net.state_dict(), path)\n"


def test_unit_tests_are_no_training_scripts(lint_text: Lint) -> None:
    assert lint_text(TEST + "test_saves()\n", name="tests/test_net.py") == []
    assert lint_text(TEST + "test_saves()\n", name="evaluation.py") != []


def test_unit_tests_are_read_for_old_names(lint_text: Lint) -> None:
    found = lint_text(TEST + "from torch._six import inf\n", name="tests/test_net.py")
    assert [one.code for one in found] == ["DDP907"]
