"""Files that several ranks write, and lines that several ranks print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ddpify.checking.findings import Finding, finding
from ddpify.checking.recording import Recording
from ddpify.verify.compare import causes
from ddpify.verify.compare.prints import NUMBER, numbers
from ddpify.verify.verdict import Cause

OWN_NUMBER = Cause(
    "each rank prints a number of its own",
    causes.PRINTED_NUMBER.remedy,
    causes.PRINTED_NUMBER.rules,
)
_LABEL = (
    r"(?<![a-zA-Z])(?:rank|gpu|cuda|device|proc(?:ess)?|worker|node|r)\W{{0,3}}{rank}(?!\d)"
    r"|^\W*{rank}\W"
)
LOCKS = (".lock", ".lck")
"""Suffixes of files by which processes wait for each other."""


def outside_findings(run: Recording) -> Iterator[Finding]:
    """Each file and each line of the script once."""
    yield from _files(run)
    yield from _lines(run)


def _files(run: Recording) -> Iterator[Finding]:
    written: dict[str, dict[int, str]] = {}
    for rank in run.ranks:
        for event in run.events(rank, "write"):
            written.setdefault(event["path"], {}).setdefault(rank, event["at"])
    reported = set()
    for path, ranks in written.items():
        at = ranks[min(ranks)]
        if len(ranks) > 1 and at and at not in reported and _is_kept(run.root / path):
            reported.add(at)
            seen = f"{path} by {_shown(list(ranks))}"
            yield finding(causes.WRITTEN_TWICE, seen, at, None, tuple(sorted(ranks)))


def _is_kept(path: Path) -> bool:
    """Whether a file is one to keep: no lock, no device, no file without a name."""
    if path.is_dir():  # O_TMPFILE opens the folder
        return False
    return not str(path).startswith(("/dev/", "/proc/")) and path.suffix not in LOCKS


def _lines(run: Recording) -> Iterator[Finding]:
    printed: list[dict[str, list[str]]] = [{} for _ in run.ranks]
    for rank in run.ranks:
        for event in run.events(rank, "print"):
            if event["at"] and event["text"].strip():
                printed[rank].setdefault(event["at"], []).append(event["text"])
    for at, own in printed[0].items():
        others = [rank for rank in run.ranks[1:] if at in printed[rank]]
        for rank in others:
            found = _repeated(own, printed[rank][at], rank)
            if found is not None:
                ranks = (0, *others)
                yield finding(found[0], f"{found[1]!r} by {_shown(ranks)}", at, None, ranks)
                break


def _repeated(own: list[str], other: list[str], rank: int) -> tuple[Cause, str] | None:
    """The first line that another rank prints too, without saying that it is its own."""
    for mine, theirs in zip(own, other, strict=False):
        same_words = NUMBER.sub("#", mine) == NUMBER.sub("#", theirs)
        own_names = (labelled(mine, 0) and labelled(theirs, rank)) or _tell_ranks(
            mine, theirs, rank
        )
        if same_words and not own_names:
            differs = numbers(mine) != numbers(theirs)
            return (OWN_NUMBER if differs else causes.PRINTED_TWICE), mine
    return None


def _tell_ranks(mine: str, theirs: str, rank: int) -> bool:
    """Whether lines that speak of ranks differ in nothing but their ranks."""
    pairs = zip(NUMBER.findall(mine), NUMBER.findall(theirs), strict=False)
    other = {pair for pair in pairs if pair[0] != pair[1]}
    return other == {("0", str(rank))} and "rank" in mine.lower()


def labelled(line: str, rank: int) -> bool:
    """Whether a line says that it is ``rank``'s."""
    return re.search(_LABEL.format(rank=rank), line, re.IGNORECASE) is not None


def _shown(ranks: Any) -> str:
    return "ranks " + " and ".join(map(str, sorted(ranks)))
