"""SARIF 2.1.0, which GitHub code scanning and editors read."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

from ddpify import __version__
from ddpify.lines import line_starts
from ddpify.lint.diagnostics import Diagnostic, Edit, Severity
from ddpify.lint.report import Report

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render(report: Report) -> str:
    """One run with its rules and results."""
    codes = sorted({(one.code, one.name) for one in report.found})
    rules = [{"id": code, "name": name, "shortDescription": {"text": name}} for code, name in codes]
    numbers = {code: number for number, (code, _) in enumerate(codes)}
    driver = {"name": "ddpify", "version": __version__, "rules": rules}
    results = [_result(one, numbers[one.code], report.text_of(one)) for one in report.found]
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _result(one: Diagnostic, number: int, text: str | None) -> dict[str, object]:
    result: dict[str, object] = {
        "ruleId": one.code,
        "ruleIndex": number,
        "level": _level(one),
        "message": {"text": one.graded},
        "properties": {"severity": one.severity.word, "confidence": one.confidence.word},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(one.path)},
                    "region": _region(one),
                }
            }
        ],
    }
    if one.fix is not None and text is not None and one.cell is None:
        changes = [_replacement(edit, line_starts(text)) for edit in one.fix.edits]
        artifact = {"artifactLocation": {"uri": _uri(one.path)}, "replacements": changes}
        result["fixes"] = [{"description": {"text": one.fix.title}, "artifactChanges": [artifact]}]
    return result


def _level(one: Diagnostic) -> str:
    if one.single or one.severity is Severity.STYLE:
        return "note"
    return "warning" if one.severity is Severity.SLOW else "error"


def _uri(path: str) -> str:
    given = Path(path)
    return given.as_uri() if given.is_absolute() else quote(given.as_posix())


def _region(one: Diagnostic) -> dict[str, int]:
    return {
        "startLine": one.span.line,
        "startColumn": one.span.column,
        "endLine": one.span.end_line,
        "endColumn": one.span.end_column,
    }


def _replacement(edit: Edit, starts: list[int]) -> dict[str, object]:
    first, last = _point(edit.start, starts), _point(edit.end, starts)
    region = {
        "startLine": first[0],
        "startColumn": first[1],
        "endLine": last[0],
        "endColumn": last[1],
    }
    return {"deletedRegion": region, "insertedContent": {"text": edit.text}}


def _point(offset: int, starts: list[int]) -> tuple[int, int]:
    line = max(number for number, start in enumerate(starts, 1) if start <= offset)
    return line, offset - starts[line - 1] + 1
