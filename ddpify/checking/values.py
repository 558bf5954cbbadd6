"""Numbers that are one rank's own and end where that of all ranks is meant."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from ddpify.checking.effects import Effects
from ddpify.checking.findings import Finding, finding
from ddpify.checking.outside import labelled
from ddpify.checking.recording import Recording
from ddpify.verify.verdict import Cause

LIMIT = 1e-9
_REDUCE = "reduce it over the ranks first: dist.all_reduce, or dd.mean, dd.sum or dd.gather"
SHOWN = Cause("a number of one rank's own samples is shown as if it were that of all",
              _REDUCE, ("DDP405",))  # fmt: skip
DECIDED = Cause("rank {rank} alone decides, by a number of its own samples", _REDUCE, ("DDP405",))
RATE = Cause("the scheduler follows a number of each rank's own samples", _REDUCE, ("DDP406",))
FLOW = Cause("each rank decides by a number of its own samples", _REDUCE, ("DDP402",))
_WORDS = {"text": "{text}", "logger": "passed to {text}", "json": "passed to json.{text}",
          "save": "saved in a checkpoint", "print": "{text!r}"}  # fmt: skip


def value_findings(run: Recording, values: Values) -> Iterator[Finding]:
    """Each line once; what is shown before what is decided."""
    reported = set()
    for one in [*_shown(run, values), *_decided(run, values)]:
        if (one.at, one.code) not in reported:
            reported.add((one.at, one.code))
            yield one


class Values:
    """The numbers that the ranks recorded.

    Args:
        run: The recording.
    """

    def __init__(self, run: Recording) -> None:
        self._run = run

    @cached_property
    def _known(self) -> list[dict[int, dict[str, Any]]]:
        return [
            {event["id"]: event for event in self._run.events(rank, "value")}
            for rank in self._run.ranks
        ]

    @cached_property
    def _by_key(self) -> list[dict[str, float]]:
        return [{event["key"]: event["value"] for event in one.values()} for one in self._known]

    def own(self, rank: int, origins: Sequence[int]) -> str:
        """The line where a number came into being that differs among the ranks; empty: none.

        A number that other ranks did not compute tells nothing: what it was computed from does.
        """
        seen: set[int] = set()
        waiting = list(origins)
        while waiting:
            number = waiting.pop()
            event = self._known[rank].get(number)
            if number in seen or event is None:
                continue
            seen.add(number)
            others = [known.get(event["key"]) for known in self._by_key]
            if any(value is None for value in others) or not self._aligned(event["key"]):
                waiting += event["parents"]
            elif any(not _same(value, event["value"]) for value in others):
                return str(event["at"])
        return ""

    def _aligned(self, key: str) -> bool:
        """Whether the ranks were equally often at a place in a step: visits are then the same."""
        place = key.rpartition("#")[0]
        return len({visits[place] for visits in self._visits}) == 1

    @cached_property
    def _visits(self) -> list[Counter[str]]:
        return [Counter(key.rpartition("#")[0] for key in known) for known in self._by_key]


def _same(value: float | None, other: float) -> bool:
    if value is None or math.isnan(value) or math.isnan(other):
        return value is not None and math.isnan(value) == math.isnan(other)
    return value == other or math.isclose(value, other, rel_tol=LIMIT, abs_tol=1e-12)


def _shown(run: Recording, values: Values) -> Iterator[Finding]:
    """Prints, texts, loggers, files and schedulers."""
    printed = {event["at"] for rank in run.ranks for event in run.events(rank, "print")}
    texts = [{s["at"] for s in run.events(rank, "sink") if s["sort"] == "text"}
             for rank in run.ranks]  # fmt: skip
    everywhere = set.intersection(*texts)
    for rank in run.ranks:
        for event in run.events(rank, "print"):
            if event["origins"] and not labelled(event["text"], rank):
                yield from _sink(run, values, rank, {**event, "sort": "print"})
        for event in run.events(rank, "sink"):
            # A text that every rank makes may be for a file of its own; a printed one is known.
            if event["sort"] == "text" and event["at"] in printed | everywhere:
                continue
            if event["sort"] != "decision":
                yield from _sink(run, values, rank, event)


def _sink(run: Recording, values: Values, rank: int, event: dict[str, Any]) -> Iterator[Finding]:
    origin = values.own(rank, event["origins"])
    if not origin:
        return
    if event["sort"] == "scheduler":
        yield finding(RATE, f"computed at {origin}", event["at"], None, run.ranks)
    else:
        what = _WORDS[event["sort"]].format(text=event["text"])
        yield finding(SHOWN, f"{what}, computed at {origin}", event["at"], None, (rank,))


def _decided(run: Recording, values: Values) -> Iterator[Finding]:
    """Conditions before a step, a collective, a write or the end of a loop."""
    made = [
        {event["key"]: event for event in run.events(rank, "sink") if event["sort"] == "decision"}
        for rank in run.ranks
    ]
    effects = Effects(run)
    for rank in run.ranks:
        for key, event in made[rank].items():
            origin = values.own(rank, event["origins"])
            if not origin or not (effect := effects.of(event["at"])):
                continue
            results = [one[key]["text"] for one in made if key in one]
            seen = f"computed at {origin}"
            if len(results) == 1 or effect.kind == "write":
                cause = Cause(DECIDED.text.format(rank=rank), DECIDED.remedy, DECIDED.rules)
                yield finding(cause, seen, event["at"], None, (rank,))
            else:
                certainty = "seen" if len(set(results)) > 1 else "possible"
                if effect.at != event["at"]:
                    seen += f", decided at {event['at']}"
                yield finding(FLOW, seen, effect.at, None, run.ranks, certainty)
