"""JUnit XML: a test suite for each file with findings."""

from __future__ import annotations

from itertools import groupby
from xml.sax.saxutils import escape, quoteattr

from ddpify.lint.report import Report


def render(report: Report) -> str:
    """One failed test case a finding; one that passed where nothing was found."""
    count = len(report.found)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>']
    lines.append(f'<testsuites name="ddpify" tests="{count or 1}" failures="{count}" errors="0">')
    for path, group in groupby(report.found, key=lambda one: one.path):
        found = list(group)
        total = len(found)
        lines.append(f'  <testsuite name={quoteattr(path)} tests="{total}" failures="{total}">')
        for one in found:
            case = quoteattr(f"{one.code} {one.name}")
            lines.append(
                f'    <testcase name={case} classname={quoteattr(path)} line="{one.span.line}">'
            )
            text = escape(f"line {one.span.line}, column {one.span.column}: {one.graded}")
            kind = quoteattr(one.severity.word)
            lines.append(
                f"      <failure type={kind} message={quoteattr(one.sentence)}>{text}</failure>"
            )
            lines.append("    </testcase>")
        lines.append("  </testsuite>")
    if not count:
        lines.append('  <testsuite name="ddpify" tests="1" failures="0">')
        lines.append('    <testcase name="no findings" classname="ddpify"/>')
        lines.append("  </testsuite>")
    return "\n".join([*lines, "</testsuites>"])
