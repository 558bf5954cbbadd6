"""Parameters that ranks hold in parts: their fingerprints, put together after the run.

Squares and projections of the parts add up to those of the whole, so that recording needs no
collective.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ddpify.verify.compare.records import Mark, events

_MARKED = ("optimizer", "step")


def put_together(paths: Sequence[Path]) -> None:
    """Rewrite the ranks' records with whole fingerprints, where parts were recorded."""
    found = [[e for e in events(path) if e["event"] in _MARKED] for path in paths]
    if not any(any(event.get("divided", ())) for rank in found for event in rank):
        return
    after: dict[int, list[Mark | None]] = {}
    for together in zip(*found, strict=False):
        _join_events(together, after)
    for path, rank in zip(paths, found, strict=True):
        _rewrite(path, rank)


def _join_events(together: Sequence[dict[str, Any]], after: dict[int, list[Mark | None]]) -> None:
    """Give one moment's events of all ranks the same whole marks."""
    divided = together[0].pop("divided", [])
    for event in together[1:]:
        event.pop("divided", None)
    for key in ("params", "grads", "before"):
        series = [event.get(key) for event in together]
        if all(marks is not None for marks in series):
            wholes = [_whole(marks) for marks in zip(*series, strict=False)]
            for event in together:
                event[key] = [
                    whole if own else mark
                    for own, whole, mark in zip(divided, wholes, event[key], strict=False)
                ]
    for event in together:
        number = event["optimizer"]
        if event.get("before") is not None and event["before"] == after.get(number):
            event["before"] = None
    after[together[0]["optimizer"]] = together[0]["params"]


def _whole(marks: Sequence[Mark | None]) -> Mark | None:
    there = [mark for mark in marks if mark is not None]
    if not there:
        return None
    return math.hypot(*(norm for norm, _ in there)), math.fsum(along for _, along in there)


def _rewrite(path: Path, marked: list[dict[str, Any]]) -> None:
    """The same events in the same order, the marked ones in their new form."""
    new = iter(marked)
    lines = []
    for event in events(path):
        kept = next(new) if event["event"] in _MARKED else event
        kept.pop("divided", None)
        lines.append(json.dumps(kept) + "\n")
    path.write_text("".join(lines), encoding="utf-8")
