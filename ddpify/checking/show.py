"""A report as text and as JSON."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict
from typing import Any

from ddpify.checking.findings import Finding, Report
from ddpify.verify.report.text import processes

SCHEMA = 1
WIDTH = 88


def render(report: Report) -> str:
    """``report`` for a terminal."""
    parts = [_shown(one) for one in report.findings]
    parts += [f"note: {note}" for note in report.notes]
    if report.failure is not None:
        parts.append(report.failure)
    parts.append(_summary(report))
    return "\n\n".join(parts)


def _shown(one: Finding) -> str:
    head = f"{one.at or 'the script'}: {one.code} {one.message}"
    step = [f"step {one.step}"] if one.step is not None else []
    word = "rank" if len(one.ranks) == 1 else "ranks"
    ranks = [f"{word} {', '.join(map(str, one.ranks))}"] if one.ranks else []
    how = "seen in this run" if one.certainty == "seen" else "possible, not seen in this run"
    seen = f"{how}: {'; '.join([*step, *ranks])}"
    lines = [*textwrap.wrap(head, WIDTH, subsequent_indent="  ", break_long_words=False)]
    lines += textwrap.wrap(f"remedy: {one.remedy}", WIDTH, initial_indent="  ",
                           subsequent_indent="    ")  # fmt: skip
    return "\n".join([*lines, f"  {seen}  (ddpify rule {one.code})"])


def _summary(report: Report) -> str:
    count = len(report.findings)
    what = "no finding" if not count else f"{count} finding" + "s" * (count > 1)
    if report.failure is not None and not count:
        what = "not judged"
    silenced = f", {len(report.silenced)} silenced" if report.silenced else ""
    steps = max(report.steps, default=0)
    return (
        f"{report.script}: {what}{silenced} in {steps} steps on {processes(report.nproc)} "
        f"({report.seconds:.0f} s)"
    )


def as_json(report: Report) -> str:
    """``report`` for machines; ``schema`` goes up when a field changes its meaning."""
    return json.dumps({"schema": SCHEMA, **_values(report)}, indent=2)


def _values(report: Report) -> dict[str, Any]:
    values = asdict(report)
    for key in ("findings", "silenced"):
        values[key] = [_one(found) for found in getattr(report, key)]
    return {**values, "exit_code": report.exit_code}


def _one(found: Finding) -> dict[str, Any]:
    values = asdict(found)
    del values["at"]
    return {**values, "path": found.path, "line": found.line}
