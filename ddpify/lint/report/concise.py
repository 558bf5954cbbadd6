"""One line a finding."""

from __future__ import annotations

from ddpify.lint.report import Report, place, summary


def render(report: Report) -> str:
    """``path:line:column: code name: message (severity, confidence)``."""
    lines = [
        f"{place(one)}: {one.code} {'[*] ' if one.fix and one.fix.applicability == 2 else ''}"
        f"{one.name}: {one.graded}"
        for one in report.found
    ]
    return "\n".join([*lines, summary(report)])
