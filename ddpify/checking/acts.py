"""Files that are read while another rank writes them, folders that have another name on each rank,
and addresses that all ranks ask for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ddpify.checking.findings import Finding, finding
from ddpify.checking.outside import LOCKS, labelled
from ddpify.checking.recording import Recording
from ddpify.verify.compare.prints import NUMBER
from ddpify.verify.verdict import Cause

UNFINISHED = Cause(
    "a file is read while another rank may still be writing it: no collective is in between",
    "call dist.barrier() between the write and the read",
    ("DDP419",),
)
OWN_FOLDER = Cause(
    "each rank makes a folder of another name where one folder is meant",
    "name it on rank 0 and broadcast the name, or make it on rank 0 alone",
    ("DDP507",),
)
DOWNLOADED = Cause(
    "every rank downloads the same",
    "download on rank 0 while the others wait at a barrier",
    ("DDP117",),
)


@dataclass(frozen=True)
class Act:
    """One act of a rank.

    Attributes:
        kind: "read", "write", "folder" or "request".
        name: The absolute path, or the address.
        at: The script's line.
        turn: Collectives that the rank had begun by then.
    """

    kind: str
    name: str
    at: str
    turn: int


def act_findings(run: Recording) -> Iterator[Finding]:
    """Each line of the script once."""
    acts = [list(_acts(run, rank)) for rank in run.ranks]
    yield from _unfinished(run, acts)
    yield from _folders(run, acts)
    yield from _requests(run, acts)


def _acts(run: Recording, rank: int) -> Iterator[Act]:
    turn = 0
    home = run.outcome.copy.cwd
    for event in run.all_events(rank):
        kind = event["event"]
        turn += kind == "collective"
        if kind in ("read", "write", "folder") and event["at"]:
            yield Act(kind, os.path.join(home, event["path"]), event["at"], turn)
        elif kind == "request":
            yield Act(kind, event["url"], event["at"], turn)


def _unfinished(run: Recording, acts: list[list[Act]]) -> Iterator[Finding]:
    """Reads of what one other rank alone writes, with no collective before or after it."""
    written = [{act.name: act for act in own if act.kind == "write"} for own in acts]
    if any(name.endswith(LOCKS) for own in written for name in own):
        return  # the script has its own way to wait
    reported: set[str] = set()
    for rank, own in enumerate(acts):
        for act in own:
            makers = [other for other in run.ranks if act.name in written[other]]
            if act.kind != "read" or len(makers) != 1 or rank in makers or act.at in reported:
                continue
            writes = [one for one in acts[makers[0]]
                      if one.kind == "write" and one.name == act.name]  # fmt: skip
            if any(one.turn == act.turn for one in writes):
                reported.add(act.at)
                place = f"rank {makers[0]} writes {Path(act.name).name} at {writes[0].at}"
                yield finding(UNFINISHED, place, act.at, None, (makers[0], rank))


def _folders(run: Recording, acts: list[list[Act]]) -> Iterator[Finding]:
    """Folders made at one line, equally many on two ranks, whose names differ in other than the
    rank."""
    made = [_made(own, str(run.root) + os.sep) for own in acts]
    for at, mine in made[0].items():
        for rank, own in enumerate(made[1:], 1):
            pairs = list(zip(mine, own.get(at, []), strict=False))
            foreign = [pair for pair in pairs if not _own_names(*pair, rank)]
            if len(own.get(at, [])) == len(mine) and set(mine).isdisjoint(own[at]) and foreign:
                seen = f"{foreign[0][0]} on rank 0, {foreign[0][1]} on rank {rank}"
                yield finding(OWN_FOLDER, seen, at, None, run.ranks)
                break


def _made(acts: list[Act], root: str) -> dict[str, list[str]]:
    """The folders below ``root`` that each line makes, without those above them."""
    found: dict[str, list[str]] = {}
    for act in acts:
        if act.kind == "folder" and act.name.startswith(root):
            found.setdefault(act.at, []).append(act.name[len(root) :])
    return {
        at: [name for name in names if not any(one.startswith(name + os.sep) for one in names)]
        for at, names in found.items()
    }


def _own_names(mine: str, theirs: str, rank: int) -> bool:
    """Whether the names say whose folders they are, or differ in the rank alone."""
    pairs = zip(NUMBER.findall(mine), NUMBER.findall(theirs), strict=False)
    numbers = {pair for pair in pairs if pair[0] != pair[1]}
    same_words = NUMBER.sub("#", mine) == NUMBER.sub("#", theirs)
    named = labelled(mine, 0) and labelled(theirs, rank)
    return named or (same_words and numbers == {("0", str(rank))})


def _requests(run: Recording, acts: list[list[Act]]) -> Iterator[Finding]:
    asked = [{act.name: act.at for act in own if act.kind == "request"} for own in acts]
    reported: set[str] = set()
    for url, at in asked[0].items():
        if all(url in own for own in asked[1:]) and at not in reported:
            reported.add(at)
            yield finding(DOWNLOADED, url, at, None, run.ranks)
