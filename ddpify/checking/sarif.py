"""A report as SARIF 2.1.0, which GitHub code scanning and editors read."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

from ddpify import __version__
from ddpify.checking.findings import Finding, Report
from ddpify.codes import CODES

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def as_sarif(report: Report) -> str:
    """One run with its rules and results; silenced findings are marked as suppressed."""
    found = [*report.findings, *report.silenced]
    codes = sorted({one.code for one in found})
    rules = [{"id": c, "name": CODES[c], "shortDescription": {"text": CODES[c]}} for c in codes]
    results = [_result(one, codes, silenced=one in report.silenced) for one in found]
    driver = {"name": "ddpify check", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _result(one: Finding, codes: list[str], *, silenced: bool) -> dict[str, object]:
    result: dict[str, object] = {
        "ruleId": one.code,
        "ruleIndex": codes.index(one.code),
        "level": "error" if one.certainty == "seen" else "warning",
        "message": {"text": f"{one.message}. Remedy: {one.remedy}"},
        "properties": {"certainty": one.certainty, "step": one.step, "ranks": list(one.ranks)},
    }
    if one.line is not None:
        place = {"artifactLocation": {"uri": _uri(one.path)}, "region": {"startLine": one.line}}
        result["locations"] = [{"physicalLocation": place}]
    if silenced:
        result["suppressions"] = [{"kind": "inSource"}]
    return result


def _uri(path: str) -> str:
    given = Path(path)
    return given.as_uri() if given.is_absolute() else quote(given.as_posix())
