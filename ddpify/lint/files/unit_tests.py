"""Which files test a library: what they train shows that it works, and nobody runs it on GPUs."""

from __future__ import annotations

import re
from pathlib import Path

_FOLDERS = frozenset({"test", "tests", "testing", "unit_tests", "unittests"})
_HAS_TESTS = re.compile(
    r"^\s*(?:async )?def test_\w+\(|^class \w+\([\w., ]*TestCase\b|^\s*@pytest\.|^import pytest\b"
    r"|^from pytest\b|^if .*\bunittest\.main\(",
    re.MULTILINE,
)


def is_unit_test(path: Path, text: str) -> bool:
    """Whether a file has tests for pytest or unittest, by its place or name and by its content.

    A script called `test.py` that evaluates a model is none.
    """
    named = path.name.startswith("test_") or path.stem.endswith("_test")
    placed = not _FOLDERS.isdisjoint(part.lower() for part in path.absolute().parts[-6:-1])
    if path.name == "conftest.py":
        return True
    return (named or placed) and _HAS_TESTS.search(text) is not None
