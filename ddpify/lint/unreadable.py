"""What is said of a file that cannot be read as Python."""

from __future__ import annotations

from itertools import accumulate

from ddpify.errors import DdpifyError
from ddpify.lint.diagnostics import Diagnostic, Edit, Fix, Severity, Span
from ddpify.lint.files import notebooks
from ddpify.lint.files.document import Document
from ddpify.old_syntax import NEW, OLD, async_places
from ddpify.source import source_without_async


def unreadable(
    document: Document,
    data: bytes,
    error: DdpifyError,
    codes: set[str],
    cells: notebooks.Cells | None = None,
) -> list[Diagnostic]:
    """The error, or each ``async=`` of a script that Python compiles without.

    data: the script's, which a notebook's cells are joined to.
    cells: where it has them, of a notebook.
    """
    if "DDP000" not in codes:
        return []
    line, column = error.line or 1, error.column or 1
    span = Span(line, column, line, column + 1)
    found = [_found(document, span, error.message.removeprefix("syntax error: "))]
    if b"async" in data:
        found = _old_async(document, data) or found
    return [notebooks.in_cell(one, cells) if cells is not None else one for one in found]


def _old_async(document: Document, data: bytes) -> list[Diagnostic]:
    source = source_without_async(data, document.path)
    text = source.before if source is not None else None
    if text is None:
        return []
    message = f"{OLD}= is a syntax error since Python 3.7: PyTorch's name for it is {NEW}="
    starts = list(accumulate(map(len, text.splitlines(keepends=True)), initial=0))
    found = []
    for line, column in async_places(text):
        start = starts[line - 1] + column
        fix = Fix(f"call it {NEW}=", (Edit(start, start + len(OLD), NEW),))
        span = Span(line, column + 1, line, column + 1 + len(OLD))
        found.append(_found(document, span, message, fix))
    return found


def _found(document: Document, span: Span, message: str, fix: Fix | None = None) -> Diagnostic:
    return Diagnostic(
        document.path, span, "DDP000", "syntax-error", message, Severity.CRASH, fix=fix
    )
