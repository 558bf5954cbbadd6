"""Tables of what became of the scripts."""

from __future__ import annotations

import json
import re
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
    """The most frequent operators with an outcome, each with its shortest script."""
    found: dict[str, list[Tried]] = defaultdict(list)
    tried = Counter(operator(result.script.form) for result in results)
    for result in results:
        if result.verdict.outcome is outcome:
            found[operator(result.script.form)].append(result)
    frequent = sorted(found.items(), key=lambda item: -len(item[1]))[:most]
    return "\n".join(_example(name, tried[name], those) for name, those in frequent)


def operator(form: str) -> str:
    """The functions, methods and dimensions of a form: the same for all of its spellings."""
    names = re.findall(r"([A-Za-z_]\w*)\(", form) or [form]
    numbers = re.findall(r"(?<![\w.])-?\d\b(?![.:])", form)
    return " ".join([*names, *numbers])


def by_dimension(results: list[Tried]) -> str:
    """How often each dimension that a form works along is silently different."""
    tried: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for result in results:
        for dimension in set(re.findall(r"dims?=[\[(]?(-?\d)", result.script.form)):
            tried[dimension] += 1
            wrong[dimension] += result.verdict.outcome is Outcome.DIFFERENT
    return "\n".join(
        f"dim={d:>2}: {wrong[d]} of {tried[d]} silently different" for d in sorted(tried)
    )


def _example(name: str, tried: int, those: list[Tried]) -> str:
    shortest = min(those, key=lambda result: len(result.script.text))
    numbers = " ".join(str(result.script.number) for result in those[:8])
    kinds = Counter(result.script.kind for result in those)
    places = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    lines = [
        f"=== {len(those)} of {tried}: {name}",
        f"    in {places}; scripts {numbers}",
        f"    {shortest.script.form}: {shortest.verdict.detail}",
    ]
    return "\n".join(lines) + f"\n\n{shortest.script.text}"


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
