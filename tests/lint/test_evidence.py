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
