"""What the ranks of one run recorded, as the detectors read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ddpify.verify.compare import records
from ddpify.verify.compare.batches import Reading
from ddpify.verify.compare.records import Mark, OptimizerStart, Step, Totals
from ddpify.verify.runs import Outcome


@dataclass(frozen=True)
class Loader:
    """How a loader is made.

    Attributes:
        sampler: The class of its sampler.
        replacement: Whether that draws with replacement.
        selects: Whether its sampler may leave out samples on purpose.
        at: The script's line.
        length: The samples of its data set; None: not known.
    """

    sampler: str
    replacement: bool
    selects: bool
    at: str
    length: int | None = None


class Recording:
    """The records of all ranks; every list is in the order of the ranks.

    Args:
        outcome: The run.
    """

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.root = outcome.copy.root
        self.world_size = outcome.run.job.world_size
        self.ranks = tuple(range(self.world_size))

    @property
    def totals(self) -> list[Totals]:
        """What each rank recorded besides its steps."""
        return self.outcome.totals

    @property
    def readings(self) -> list[list[Reading]]:
        """The loaders that each rank read."""
        return self.outcome.loaders

    @property
    def timed_out(self) -> bool:
        """Whether the time limit ended the run; the ranks need not have waited for one another."""
        run = self.outcome.run
        return run.ended == "hung" and run.seconds >= run.job.timeout

    @property
    def empty(self) -> bool:
        """Whether no rank made a step, began a collective or read a loader."""
        begun = any(totals.steps or totals.collectives for totals in self.totals)
        return not begun and not any(self.readings)

    @cached_property
    def steps(self) -> list[list[Step]]:
        """The optimizer steps."""
        return [list(records.steps(path)) for path in self.outcome.paths]

    @cached_property
    def optimizers(self) -> list[dict[int, OptimizerStart]]:
        """The optimizers that made a step, by number."""
        return [records.optimizers(path) for path in self.outcome.paths]

    @cached_property
    def loaders(self) -> dict[int, Loader]:
        """The loaders of rank 0, by number."""
        return {
            event["loader"]: Loader(**{key: event[key] for key in Loader.__annotations__})
            for event in self.events(0, "loader")
        }

    def states(self, optimizer: int) -> list[list[dict[str, Mark]]]:
        """The optimizer's state after each of its steps."""
        return [
            [event["marks"] for event in self.events(rank, "state")
             if event["optimizer"] == optimizer]
            for rank in self.ranks
        ]  # fmt: skip

    def all_events(self, rank: int) -> Iterator[dict[str, Any]]:
        """All events of one rank, in their order."""
        return records.events(self.outcome.paths[rank])

    def events(self, rank: int, kind: str) -> Iterator[dict[str, Any]]:
        """The events of one kind on one rank."""
        for event in self.all_events(rank):
            if event["event"] == kind:
                yield event
