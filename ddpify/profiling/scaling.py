"""What was measured, and what follows from it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

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
    """The measurements of one script on several numbers of processes, the fewest first."""

    script: str
    torch: str
    points: tuple[Point, ...]

    def speedup(self, one: Point) -> float:
        """How many times as fast as on the fewest processes."""
        return self.points[0].seconds / one.seconds

    def efficiency(self, one: Point) -> float:
        """The speed-up's share of what as many more processes could give."""
        return self.speedup(one) * self.points[0].ranks / one.ranks

    def to_json(self) -> dict[str, Any]:
        """Plain values, with what is derived from them."""
        points = [
            {
                **asdict(one),
                "steps_per_second": one.speed,
                "compute": one.compute,
                "speedup": self.speedup(one),
                "efficiency": self.efficiency(one),
            }
            for one in self.points
        ]
        return {"script": self.script, "torch": self.torch, "points": points}
