"""The batches that loaders yielded: one rank's, and the global ones of all ranks together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ddpify.verify.compare.records import events


@dataclass(frozen=True)
class Batch:
    """One batch of one rank.

    Attributes:
        ids: Indices into the loader's data set.
        roots: Indices into the data set below its subsets; ``ids`` where there are none.
        marks: A number for each sample's content.
        subset: Whether the data set is a subset of another.
        single: Whether the loader yields samples uncollated.
        stream: Whether the data set has no indices: the samples' contents stand for them.
    """

    ids: list[Any]
    roots: list[Any]
    marks: list[float]
    subset: bool
    single: bool
    stream: bool = False


@dataclass
class Reading:
    """A loader as one rank read it.

    Attributes:
        number: Its number in order of construction.
        passes: Batches of each pass over it.
        complete: Passes that came to their end.
        trains: Whether a backward followed one of its batches directly.
    """

    number: int
    passes: list[list[Batch]] = field(default_factory=list)
    complete: set[int] = field(default_factory=set)
    trains: bool = False


def read(path: Path) -> list[Reading]:
    """The loaders of one rank with samples known by index, in order of first use."""
    found: dict[int, Reading] = {}
    for event in events(path):
        kind = event["event"]
        if kind not in ("batch", "pass", "trains"):
            continue
        number = event["loader"]
        if kind == "batch":
            reading = found.setdefault(number, Reading(number))
            while len(reading.passes) <= event["turn"]:
                reading.passes.append([])
            reading.passes[event["turn"]].append(_batch(event))
        elif number in found and kind == "pass":
            found[number].complete.add(event["turn"])
        elif number in found:
            found[number].trains = True
    return list(found.values())


def _batch(event: dict[str, Any]) -> Batch:
    roots = event["roots"]
    return Batch(
        ids=event["ids"],
        roots=roots or event["ids"],
        marks=event["marks"],
        subset=roots is not None,
        single=event["single"],
        stream=event["stream"],
    )


@dataclass(frozen=True)
class GlobalBatch:
    """What the ranks had together.

    Attributes:
        parts: Each rank's batch; None for a rank that had none.
    """

    parts: list[Batch | None]

    @property
    def everywhere(self) -> bool:
        """Whether several ranks all had the same samples in the same order."""
        first = self.parts[0]
        same = all(part and first and part.roots == first.roots for part in self.parts)
        return len(self.parts) > 1 and same

    @property
    def merged(self) -> list[Batch]:
        """The ranks' batches; one of them where all ranks had the same."""
        present = [part for part in self.parts if part is not None]
        return present[:1] if self.everywhere else present

    def roots(self) -> list[Any]:
        """The samples, rank after rank."""
        return [root for part in self.merged for root in part.roots]


def together(ranks: Sequence[Reading], turn: int) -> list[GlobalBatch]:
    """The global batches of a pass: the ranks' n-th batches side by side."""
    passes = [rank.passes[turn] if turn < len(rank.passes) else [] for rank in ranks]
    return [GlobalBatch(list(parts)) for parts in zip_longest(*passes)]


def aligned(ranks: Sequence[Sequence[Reading]]) -> Iterator[list[Reading]]:
    """Each loader as all ranks read it; loaders pair by their order of first use."""
    yield from map(list, zip(*ranks, strict=False))
