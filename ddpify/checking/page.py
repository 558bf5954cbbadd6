"""A report as one page: everything in it is in the file, and it opens offline."""

from __future__ import annotations

import platform
from html import escape
from pathlib import Path

from ddpify import __version__
from ddpify.checking.findings import Finding, Report
from ddpify.codes import CODES
from ddpify.verify.report.style import CSS
from ddpify.verify.report.text import processes

AROUND = 2
"""Lines shown before and after the line of a finding."""


def as_html(report: Report) -> str:
    """``report`` as an HTML document."""
    title = _title(report)
    parts = [_head(report, title), *map(_finding, report.findings)]
    if report.failure:
        parts.append(f"<h2>What happened</h2><pre>{escape(report.failure)}</pre>")
    parts += [f'<p class="soft">{escape(note)}</p>' for note in report.notes]
    if report.silenced:
        parts += ["<h2>Silenced by a comment</h2>", *map(_finding, report.silenced)]
    parts.append(_facts(report))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(report.script)}: {title}</title><style>{CSS}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _title(report: Report) -> str:
    count = len(report.findings)
    if not count:
        return "no finding" if report.failure is None else "not judged"
    return f"{count} finding" + "s" * (count > 1)


def _head(report: Report, title: str) -> str:
    tone = {0: "good", 1: "bad"}.get(report.exit_code, "fair")
    return (
        f'<header class="{tone}"><h1>{title.capitalize()}</h1>'
        f"<p><code>{escape(report.script)}</code> on {processes(report.nproc)}, "
        f"{max(report.steps, default=0)} optimizer steps</p></header>"
    )


def _finding(one: Finding) -> str:
    step = f", step {one.step}" if one.step is not None else ""
    ranks = f", ranks {', '.join(map(str, one.ranks))}" if one.ranks else ""
    how = "seen in this run" if one.certainty == "seen" else "possible, not seen in this run"
    return (
        f'<div class="finding{"" if one.certainty == "seen" else " named"}">'
        f'<p><b>{escape(one.at or "the script")}</b> <span class="rule">{one.code}</span> '
        f"{CODES[one.code]}</p><p>{escape(one.message)}</p>{_source(one)}"
        f'<p>Remedy: {escape(one.remedy)}</p><p class="soft">{how}{step}{ranks}</p></div>'
    )


def _source(one: Finding) -> str:
    path = Path(one.path)
    if one.line is None or not path.is_file():
        return ""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    shown = range(max(one.line - AROUND, 1), min(one.line + AROUND, len(lines)) + 1)
    rows = []
    for number in shown:
        text = escape(f"{number:>5}  {lines[number - 1]}")
        rows.append(f"<mark>{text}</mark>" if number == one.line else text)
    return "<pre>" + "\n".join(rows) + "</pre>"


def _facts(report: Report) -> str:
    facts = {
        "ddpify": __version__,
        "Python": platform.python_version(),
        "steps by rank": ", ".join(map(str, report.steps)),
        "time": f"{report.seconds:.1f} s",
    }
    rows = "".join(f"<tr><th>{name}</th><td>{escape(text)}</td></tr>"
                   for name, text in facts.items())  # fmt: skip
    return f"<h2>The run</h2><table class=facts>{rows}</table>"
