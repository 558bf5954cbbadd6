"""What was measured, and what follows from it."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

GRADIENTS = "DistributedDataParallel"
"""The name under which the part of its all-reduces is listed that backward does not hide."""
Span = tuple[str, float, float]
_WORTH_NAMING = 0.005
ORDINARY = 3.0
"""A step that takes more than so many times the median holds something else, such as a test."""


@dataclass(frozen=True)
class Point:
    """The training on ``ranks`` processes.

    Attributes:
        steps: How many steps were measured.
        seconds: Of a step, the median (the slowest rank's).
        data: Share of the time that is waiting for a loader, the mean of the ranks.
        communication: Share of the time that is waiting for other ranks.
        host: Most bytes held by a rank.
        gpu: Most bytes held by a rank on its GPU; 0 on the CPU.
        uneven: By how much the busiest rank's computing exceeds the mean's, as a share.
        cores: CPU cores of this machine.
        gpus: GPUs of this machine.
        waits: Shares of the time by what was waited for, the longest first, the mean of the ranks.
        hidden: The share of the gradients' way that backward hides; None where nothing travelled.
        buckets: Bytes of DistributedDataParallel's buckets.
        by_rank: Of each rank the shares of computing, of the other ranks and of data.
        timelines: Of each rank what it did in the last step: kind, begin and end, in seconds from
            the first rank's begin of the step.
        workers: The most worker processes of a loader.
        samples: Of a step on all ranks together, the median; 0 where no loader tells.
        full_precision: Whether float32 is multiplied with neither TF32 nor autocast.
    """

    ranks: int
    steps: int
    seconds: float
    data: float
    communication: float
    host: float
    gpu: float
    uneven: float
    cores: int
    gpus: int
    waits: tuple[tuple[str, float], ...] = ()
    hidden: float | None = None
    buckets: tuple[int, ...] = ()
    by_rank: tuple[tuple[float, float, float], ...] = ()
    timelines: tuple[tuple[Span, ...], ...] = ()
    workers: int = 0
    full_precision: bool = False
    samples: float = 0.0

    @property
    def speed(self) -> float:
        """Steps per second."""
        return 1 / self.seconds

    @property
    def compute(self) -> float:
        """Share of the time that is neither of the others."""
        return max(1 - self.data - self.communication, 0.0)


def point(records: Sequence[dict[str, Any]], warm_up: int) -> Point | None:
    """What the records of all ranks of one run say; None where too few steps were made."""
    measured = [record["steps"][warm_up:] for record in records]
    count = min(map(len, measured))
    if count < 2:
        return None
    ranks = [_one_rank(steps) for steps in measured]
    busy = [seconds * (1 - data - waited) for seconds, data, waited in ranks]
    return Point(
        ranks=len(records),
        steps=count,
        seconds=max(seconds for seconds, _, _ in ranks),
        data=statistics.mean(data for _, data, _ in ranks),
        communication=statistics.mean(waited for _, _, waited in ranks),
        host=max(record["memory"]["host"] for record in records),
        gpu=max(record["memory"].get("gpu", 0.0) for record in records),
        uneven=max(busy) / statistics.mean(busy) - 1,
        cores=records[0]["cores"],
        gpus=records[0]["gpus"],
        by_rank=tuple((1 - data - waited, waited, data) for _, data, waited in ranks),
        **_details(records, warm_up),
    )


def _details(records: Sequence[dict[str, Any]], warm_up: int) -> dict[str, Any]:
    """What the shares consist of, and what advice needs to know about the script."""
    return {
        "samples": _samples(records, warm_up),
        "waits": _waits(records, warm_up),
        "hidden": _hidden(records, warm_up),
        "buckets": tuple(records[0].get("buckets", ())),
        "timelines": _timelines(records),
        "workers": max(record.get("workers", 0) for record in records),
        "full_precision": records[0].get("full_precision", False),
    }


def _samples(records: Sequence[dict[str, Any]], warm_up: int) -> float:
    by_step = zip(*(record.get("samples", [])[warm_up:] for record in records), strict=False)
    told = [sum(step) for step in by_step if all(step)]
    return statistics.median(told) if told else 0.0


def _waits(records: Sequence[dict[str, Any]], warm_up: int) -> tuple[tuple[str, float], ...]:
    """Of the ordinary steps alone, as the other shares."""
    shares: defaultdict[str, float] = defaultdict(float)
    for record in records:
        steps, calls = record["steps"][warm_up:], record.get("calls", [])[warm_up:]
        median = statistics.median(step[0] for step in steps)
        kept = [n for n in range(min(len(steps), len(calls))) if steps[n][0] <= ORDINARY * median]
        whole = sum(steps[n][0] for n in kept)
        for n in kept:
            for name, seconds in calls[n].items():
                shares[name] += seconds / whole / len(records)
    named = [(name, share) for name, share in shares.items() if share > _WORTH_NAMING]
    return tuple(sorted(named, key=lambda one: -one[1]))


def _hidden(records: Sequence[dict[str, Any]], warm_up: int) -> float | None:
    pairs = [pair for record in records for pair in record.get("overlap", [])[warm_up:]]
    total = sum(one for one, _ in pairs)
    return sum(hidden for _, hidden in pairs) / total if total else None


def _timelines(records: Sequence[dict[str, Any]]) -> tuple[tuple[Span, ...], ...]:
    """The ranks are on one machine, and so on one clock."""
    spans = [record.get("timeline", []) for record in records]
    begins = [begin for one in spans for kind, begin, _ in one if kind == "step"]
    first = min(begins, default=0.0)
    return tuple(
        tuple((kind, begin - first, end - first) for kind, begin, end in one) for one in spans
    )


def _one_rank(steps: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """Median seconds, and the shares of data and of the other ranks in the ordinary steps."""
    median = statistics.median(seconds for seconds, _, _ in steps)
    kept = [step for step in steps if step[0] <= ORDINARY * median]
    whole = sum(step[0] for step in kept)
    data, waited = (min(sum(step[at] for step in kept) / whole, 1.0) for at in (1, 2))
    return median, data, min(waited, 1 - data)


@dataclass(frozen=True)
class Profile:
    """The measurements of one script on several numbers of processes, the fewest first.

    ``weak``: whether a step is as many times the work as there are ranks, where loaders do not tell
    how many samples it has.
    """

    script: str
    torch: str
    points: tuple[Point, ...]
    weak: bool = False

    def speedup(self, one: Point) -> float:
        """How many times the work in a time, compared with the fewest processes."""
        return self.gain(self.points[0], one)

    def gain(self, fewer: Point, more: Point) -> float:
        """How many times the work of ``fewer`` ``more`` does in a time."""
        work = more.ranks / fewer.ranks if self.weak else 1.0
        if fewer.samples and more.samples:
            work = more.samples / fewer.samples
        return work * fewer.seconds / more.seconds

    def efficiency(self, one: Point) -> float:
        """The speed-up's share of what as many more processes could give."""
        return self.speedup(one) * self.points[0].ranks / one.ranks

    def to_json(self) -> dict[str, Any]:
        """Plain values, with what is derived from them."""
        points = [
            {
                **asdict(one),
                "steps_per_second": one.speed,
                "samples_per_second": one.samples * one.speed,
                "compute": one.compute,
                "speedup": self.speedup(one),
                "efficiency": self.efficiency(one),
            }
            for one in self.points
        ]
        return {
            "script": self.script,
            "torch": self.torch,
            "scaling": "weak" if self.weak else "strong",
            "points": points,
        }
