"""Linting of text in tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ddpify.lint.config import Settings
from ddpify.lint.diagnostics import Diagnostic
from ddpify.lint.engine import lint
from ddpify.lint.files.document import Document

Lint = Callable[..., list[Diagnostic]]


@pytest.fixture
def lint_text(tmp_path: Path) -> Lint:
    """``lint_text(code, select=...)`` gives the findings of a file with this code."""

    def run(
        text: str,
        *,
        select: tuple[str, ...] = ("ALL",),
        strict: bool = False,
        name: str = "train.py",
    ) -> list[Diagnostic]:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        settings = Settings(root=tmp_path, select=select, strict=strict)
        result = lint(Document(str(path), path.read_bytes()), settings)
        assert result.failure is None, result.failure
        return list(result.found)

    return run
