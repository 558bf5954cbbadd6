"""Output formats: one module each, with ``render(report) -> str``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from importlib import import_module

from ddpify.lint.diagnostics import Diagnostic
from ddpify.records import record

FORMATS = {
    "full": "full",
    "concise": "concise",
    "json": "as_json",
    "github": "github",
    "gitlab": "gitlab",
    "sarif": "sarif",
    "junit": "junit",
}


@record
class Report:
    """All findings of a run, sorted.

    ``texts`` are those of the files that have any, each by its path and the cell of a notebook.
    """

    found: tuple[Diagnostic, ...]
    texts: Mapping[tuple[str, int | None], str] = field(default_factory=dict)
    fixed: int = 0
    files: int = 0
    failed: int = 0  # files that could not be analysed

    def text_of(self, one: Diagnostic) -> str | None:
        """The text that a finding's lines are of."""
        return self.texts.get((one.path, one.cell))

    @property
    def paths(self) -> list[str]:
        """The files with findings, in order."""
        return list(dict.fromkeys(one.path for one in self.found))


def render(report: Report, form: str) -> str:
    """The report in a format, without a final newline."""
    text: str = import_module(f"ddpify.lint.report.{FORMATS[form]}").render(report)
    return text


def place(one: Diagnostic) -> str:
    """``path:line:column``, with the cell of a notebook."""
    cell = f"cell {one.cell}:" if one.cell is not None else ""
    return f"{one.path}:{cell}{one.span.line}:{one.span.column}"


def summary(report: Report) -> str:
    """The last line: how much was found, and what can be done about it."""
    if not report.found:
        rest = f" {report.fixed} fixed." if report.fixed else ""
        if report.failed:
            return f"No findings, but not all was analysed: see above.{rest}"
        return f"All checks passed.{rest}"
    single = sum(one.single for one in report.found)
    bugs = len(report.found) - single
    parts = []
    if bugs:
        parts.append(f"{bugs} finding{'s' * (bugs != 1)}")
    if single:
        parts.append(f"{single} point{'s' * (single != 1)} for `ddpify convert`")
    text = (
        "Found " + " and ".join(parts) + (f" ({report.fixed} fixed)" if report.fixed else "") + "."
    )
    safe = sum(1 for one in report.found if one.fix and one.fix.applicability == 2)
    unsafe = sum(1 for one in report.found if one.fix and one.fix.applicability == 1)
    if safe:
        text += f"\n{safe} fixable with --fix"
        text += f" ({unsafe} more with --unsafe-fixes)." if unsafe else "."
    elif unsafe:
        text += f"\n{unsafe} fixable with --fix --unsafe-fixes."
    return text
