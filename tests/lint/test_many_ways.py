"""Calls that lead to a place in more ways than can be gone one by one."""

from __future__ import annotations

import pytest

from tests.lint.conftest import Lint
from tests.lint.precision.snippets import STEP, findings

ADDED = "model.module.late = nn.Linear(10, 5).to(device)"


def chain(innermost: str) -> str:
    """Functions that each call the next one twice."""
    text = f"def f0():\n    {innermost}\n"
    return text + "".join(f"def f{n}():\n    f{n - 1}()\n    f{n - 1}()\n" for n in range(1, 30))


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (STEP, "", False),
        ("", STEP, True),
    ],
)
def test_each_function_is_gone_out_of_once(
    before: str, after: str, found: bool, lint_text: Lint
) -> None:
    text = f"{before}\n{chain(ADDED)}\nf29()\n{after}"
    assert ("DDP307" in {one.code for one in findings(lint_text, text)}) is found
