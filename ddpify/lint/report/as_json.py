"""A JSON array; offsets of edits count characters of the decoded text (none in notebooks)."""

from __future__ import annotations

import json

from ddpify.lint.diagnostics import Diagnostic
from ddpify.lint.report import Report


def render(report: Report) -> str:
    """One object a finding."""
    return json.dumps([entry(one) for one in report.found], indent=2)


def entry(one: Diagnostic) -> dict[str, object]:
    """A finding as plain data."""
    edits = one.fix.edits if one.fix and one.cell is None else ()
    fix = one.fix and {
        "title": one.fix.title,
        "applicability": one.fix.applicability.name.lower(),
        "edits": [{"start": e.start, "end": e.end, "content": e.text} for e in edits],
    }
    return {
        "filename": one.path,
        "cell": one.cell,
        "location": {"row": one.span.line, "column": one.span.column},
        "end_location": {"row": one.span.end_line, "column": one.span.end_column},
        "code": one.code,
        "name": one.name,
        "severity": one.severity.word,
        "confidence": one.confidence.word,
        "context": "single-process" if one.single else "distributed",
        "message": one.sentence,
        "fix": fix,
    }
