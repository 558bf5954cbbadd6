"""Each finding with its source and carets; a single-process script's points as one list."""

from __future__ import annotations

from itertools import groupby

from ddpify.lint.diagnostics import Diagnostic
from ddpify.lint.report import Report, place, summary


def render(report: Report) -> str:
    """The findings, then a summary."""
    parts = []
    for path, group in groupby(report.found, key=lambda one: one.path):
        found = list(group)
        parts += [_finding(one, report.text_of(one)) for one in found if not one.single]
        single = [one for one in found if one.single]
        if single:
            parts.append(_checklist(path, single))
    return "\n\n".join([*parts, summary(report)])


def _finding(one: Diagnostic, text: str | None) -> str:
    head = f"{one.code} {one.name} [{one.grade}]" if one.grade else f"{one.code} {one.name}"
    lines = [f"{head}: {one.message}", f"  --> {place(one)}"]
    source = _line(text, one) if text is not None else None
    if source is not None:
        number = str(one.span.line)
        pad = " " * len(number)
        width = (
            one.span.end_column - one.span.column if one.span.end_line == one.span.line else None
        )
        width = max(1, width if width is not None else len(source) - one.span.column + 1)
        before = "".join("\t" if c == "\t" else " " for c in source[: one.span.column - 1])
        lines += [f"{pad} |", f"{number} | {source}", f"{pad} | {before}{'^' * width}"]
    if one.fix is not None:
        lines.append(f"  help: {one.fix.title}{_how(one)}")
    return "\n".join(lines)


def _how(one: Diagnostic) -> str:
    assert one.fix is not None
    return {2: " (--fix)", 1: " (--fix --unsafe-fixes)"}[int(one.fix.applicability)]


def _line(text: str, one: Diagnostic) -> str | None:
    lines = text.splitlines()
    return lines[one.span.line - 1] if one.span.line <= len(lines) else None


def _checklist(path: str, found: list[Diagnostic]) -> str:
    """What a single-process script needs to go distributed."""
    lines = [f"{path} trains in one process. What `ddpify convert` would do for several:"]
    places = [f"cell {one.cell}:" * bool(one.cell) + str(one.span.line) for one in found]
    width = max(map(len, places))
    for where, one in zip(places, found, strict=True):
        lines.append(f"  {where:>{width}}  {one.code} {one.name}: {one.message}")
    return "\n".join(lines)
