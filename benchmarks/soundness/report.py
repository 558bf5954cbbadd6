"""Tables of what became of the scripts."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

from benchmarks.soundness.judging import Outcome
from benchmarks.soundness.lanes import Tried

SHORT = {
    Outcome.SAME: "same",
    Outcome.UNDIVIDED: "undivided",
    Outcome.DIFFERENT: "DIFFERENT",
    Outcome.CRASH: "crash",
    Outcome.REFUSED: "refused",
    Outcome.BROKEN: "broken",
    Outcome.INVALID: "invalid",
}


def table(results: list[Tried]) -> str:
    """How many scripts of each kind came to which outcome."""
    counts: dict[str, Counter[Outcome]] = defaultdict(Counter)
    for result in results:
        counts[result.script.kind][result.verdict.outcome] += 1
        counts["all"][result.verdict.outcome] += 1
    rows = [["kind", *SHORT.values()]]
    for kind in sorted(counts, key=lambda kind: (kind == "all", kind)):
        rows.append([kind, *(str(counts[kind][outcome]) for outcome in SHORT)])
    return "\n".join(f"{row[0]:12}" + "".join(f"{cell:>11}" for cell in row[1:]) for row in rows)


def shares(results: list[Tried]) -> dict[Outcome, float]:
    """Which part of the scripts that train came to each outcome."""
    counts = Counter(result.verdict.outcome for result in results)
    valid = len(results) - counts[Outcome.INVALID]
    return {
        outcome: counts[outcome] / max(valid, 1)
        for outcome in Outcome
        if outcome is not Outcome.INVALID
    }


def examples(results: list[Tried], outcome: Outcome, most: int) -> str:
    """The most frequent forms with an outcome, each with its shortest script."""
    found: dict[tuple[str, str], list[Tried]] = defaultdict(list)
    for result in results:
        if result.verdict.outcome is outcome:
            found[result.script.kind, result.script.form].append(result)
    frequent = sorted(found.items(), key=lambda item: -len(item[1]))[:most]
    return "\n".join(_example(kind, form, those) for (kind, form), those in frequent)


def _example(kind: str, form: str, those: list[Tried]) -> str:
    shortest = min(those, key=lambda result: len(result.script.text))
    numbers = " ".join(str(result.script.number) for result in those[:8])
    head = f"=== {len(those)} x {kind}: {form}\n    scripts {numbers}"
    return f"{head}\n    {shortest.verdict.detail}\n\n{shortest.script.text}"


def write_json(results: list[Tried], path: Path) -> None:
    """All results in one file, those that are not the same with their scripts."""
    rows = [
        {
            "number": result.script.number,
            "kind": result.script.kind,
            "form": result.script.form,
            "outcome": result.verdict.outcome.name,
            "detail": result.verdict.detail,
            "ranks": result.verdict.ranks,
            "text": "" if result.verdict.outcome is Outcome.SAME else result.script.text,
        }
        for result in results
    ]
    path.write_text(json.dumps(rows, indent=1))
