"""Random numbers that are the same on all ranks where each draws for its own samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from ddpify.checking.findings import Finding, finding
from ddpify.checking.recording import Recording
from ddpify.checking.values import Values
from ddpify.verify.verdict import Cause

_SEED = "seed each rank otherwise once the model is built, as by torch.manual_seed(seed + rank)"
DRAWN = Cause("the ranks draw the same random numbers for different samples", _SEED, ("DDP601",))
AUGMENTED = Cause("the ranks augment different samples by the same random numbers", _SEED,
                  ("DDP601",))  # fmt: skip
REPEATED = Cause("the samples are augmented by the same random numbers in every epoch",
                 "seed once, before the loop over epochs", ("DDP601",))  # fmt: skip


def chance_findings(run: Recording, values: Values) -> Iterator[Finding]:
    """Each line that draws once, then each loader that is trained on."""
    yield from _drawn(run, values)
    for number in sorted({one.number for own in run.readings for one in own if one.trains}):
        found = _augmented(run, number)
        if found is not None:
            yield found


def _drawn(run: Recording, values: Values) -> Iterator[Finding]:
    draws = [{event["key"]: event for event in run.events(rank, "draw")} for rank in run.ranks]
    reported: set[str] = set()
    for key, event in draws[0].items():
        others = [one.get(key) for one in draws[1:]]
        alike = all(one is not None and one["state"] == event["state"] for one in others)
        if alike and event["at"] not in reported and values.own(0, event["origins"]):
            reported.add(event["at"])
            seen = "their generators are in the same state there"
            yield finding(DRAWN, seen, event["at"], None, run.ranks)


def _augmented(run: Recording, number: int) -> Finding | None:
    """What is wrong with the augmentation of a loader's samples."""
    at = run.loaders[number].at if number in run.loaders else ""
    states = [_states(run, rank, number) for rank in run.ranks]
    for turn, own in states[0].items():
        for generator, state in own.items():
            if all(one.get(turn, {}).get(generator) == state for one in states):
                seen = f"{generator}'s generator is in the same state in pass {turn + 1}"
                return finding(AUGMENTED, seen, at, None, run.ranks)
    for rank, passes in enumerate(states):
        first, second = passes.get(0, {}), passes.get(1, {})
        for generator, state in first.items():
            if second.get(generator) == state:
                seen = f"{generator}'s generator begins two passes in the same state"
                return finding(REPEATED, seen, at, None, (rank,))
    return None


def _states(run: Recording, rank: int, number: int) -> dict[int, dict[str, Any]]:
    """The states that the augmentation of each pass begins in, of the generators it draws from.

    Workers of a loader seed all of theirs from torch's generator.
    """
    drawn: defaultdict[int, set[str]] = defaultdict(set)
    for event in run.events(rank, "augments"):
        if event["loader"] == number:
            drawn[event["turn"]] |= set(event["generators"])
    found: dict[int, dict[str, Any]] = {}
    for event in run.events(rank, "begin"):
        turn = event["turn"]
        if event["loader"] == number and turn in drawn:
            names = {"torch"} if event["workers"] else drawn[turn]
            found[turn] = {name: event["rng"][name] for name in sorted(names)}
    return found
