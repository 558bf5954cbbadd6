"""Workflow commands, which GitHub shows beside the lines of a pull request."""

from __future__ import annotations

from ddpify.lint.diagnostics import Severity
from ddpify.lint.report import Report, place

_LEVELS = {Severity.STYLE: "notice", Severity.SLOW: "warning"}


def render(report: Report) -> str:
    """``::error file=...::message``, escaped."""
    lines = []
    for one in report.found:
        level = "notice" if one.single else _LEVELS.get(one.severity, "error")
        where = (
            f"file={_property(one.path)},line={one.span.line},col={one.span.column}"
            f",endLine={one.span.end_line},endColumn={one.span.end_column}"
        )
        title = _property(f"ddpify {one.code} ({one.name})")
        message = _text(f"{place(one)}: {one.code} {one.graded}")
        lines.append(f"::{level} title={title},{where}::{message}")
    return "\n".join(lines)


def _text(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _text(text).replace(":", "%3A").replace(",", "%2C")
