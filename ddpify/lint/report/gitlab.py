"""GitLab's Code Quality report (the Code Climate format)."""

from __future__ import annotations

import hashlib
import json
from collections import Counter

from ddpify.lint.diagnostics import Diagnostic, Severity
from ddpify.lint.report import Report

_LEVELS = {Severity.STYLE: "info", Severity.SLOW: "minor", Severity.CRASH: "critical"}


def render(report: Report) -> str:
    """One object a finding; its fingerprint does not change when lines move."""
    seen: Counter[str] = Counter()
    entries = []
    for one in report.found:
        key = f"{one.path}:{one.code}:{one.sentence}"
        seen[key] += 1
        entries.append(_entry(one, f"{key}:{seen[key]}"))
    return json.dumps(entries, indent=2)


def _entry(one: Diagnostic, key: str) -> dict[str, object]:
    return {
        "description": f"{one.code} {one.name}: {one.graded}",
        "check_name": one.name,
        "fingerprint": hashlib.blake2b(key.encode(), digest_size=16).hexdigest(),
        "severity": "info" if one.single else _LEVELS.get(one.severity, "blocker"),
        "location": {"path": one.path, "lines": {"begin": one.span.line, "end": one.span.end_line}},
    }
