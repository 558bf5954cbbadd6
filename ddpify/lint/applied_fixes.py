"""The fixes of one document, applied to it, and what they change in it."""

from __future__ import annotations

from dataclasses import replace
from difflib import unified_diff

from ddpify.errors import DdpifyError
from ddpify.lint.config import Settings
from ddpify.lint.diagnostics import Diagnostic
from ddpify.lint.engine import Result, lint
from ddpify.lint.files import notebooks
from ddpify.lint.files.document import LAUNCH, NOTEBOOK, Document, decoded
from ddpify.lint.fixer import fix_until_stable
from ddpify.source import source_from_bytes


def apply(
    document: Document, result: Result, settings: Settings, *, unsafe: bool
) -> tuple[Document, int]:
    """The document after all of its fixes, and how many there were.

    Raises:
        DdpifyError: It is a notebook that would not come out as it was written.
    """
    before, encoding = _script(document)

    def encoded(text: str) -> Document:
        return replace(document, data=_with_script(document, text, encoding))

    def check(text: str) -> list[Diagnostic]:
        same = text == before
        return list((result if same else lint(encoded(text), settings, result.given)).found)

    def compiles(text: str) -> bool:
        return document.kind == LAUNCH or _is_python(text.encode(encoding))

    after, count = fix_until_stable(before, check, unsafe=unsafe, compiles=compiles)
    return (encoded(after), count) if after != before else (document, count)


def diffs(before: Document, after: Document) -> list[str]:
    """The changes of a file as a unified diff; those of a notebook cell by cell."""
    new = after.texts()
    return [
        _diff(text, new[cell], before.path if cell is None else f"{before.path}:cell {cell}")
        for cell, text in before.texts().items()
        if text != new[cell]
    ]


def _script(document: Document) -> tuple[str, str]:
    """What fixes are applied to, and its encoding: the text, or that of all cells together."""
    if document.kind == NOTEBOOK:
        return notebooks.join(document.data)[0], "utf-8"
    return decoded(document.data)


def _with_script(document: Document, text: str, encoding: str) -> bytes:
    if document.kind == NOTEBOOK:
        return notebooks.with_script(document.data, text)
    return text.encode(encoding)


def _is_python(data: bytes) -> bool:
    try:
        source_from_bytes(data, "")
    except DdpifyError:
        return False
    return True


def _diff(before: str, after: str, path: str) -> str:
    lines = unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), path, path
    )
    return "".join(line if line.endswith("\n") else line + "\n" for line in lines)
