"""What the doctor says, and how ranks' findings become one list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any


class Level(str, Enum):
    """How much a finding matters: training fails, suffers, or is only described."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Finding:
    """One finding.

    Attributes:
        area: What was looked at: "variables", "versions", "devices", "network", "ranks" or
            "files".
        message: One sentence.
        remedy: What to do about it; empty for a note.
        ranks: The ranks that found it; empty where it concerns all, or there are none.
    """

    level: Level
    area: str
    message: str
    remedy: str = ""
    ranks: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """A dictionary of plain values."""
        return {**asdict(self), "level": self.level.value, "ranks": list(self.ranks)}

    @staticmethod
    def from_json(values: dict[str, Any]) -> Finding:
        """The finding that ``to_json`` was called on."""
        level, ranks = Level(values["level"]), tuple(values["ranks"])
        return Finding(**{**values, "level": level, "ranks": ranks})


def note(area: str, message: str) -> Finding:
    """What is only described."""
    return Finding(Level.NOTE, area, message)


def warning(area: str, message: str, remedy: str) -> Finding:
    """What makes training slow, or may make it fail."""
    return Finding(Level.WARNING, area, message, remedy)


def error(area: str, message: str, remedy: str) -> Finding:
    """What makes training fail or go wrong."""
    return Finding(Level.ERROR, area, message, remedy)


def merged(by_rank: Sequence[Iterable[Finding]]) -> list[Finding]:
    """The findings of all ranks, each once, with the ranks that have it where not all do."""
    found: dict[Finding, list[int]] = {}
    for rank, findings in enumerate(by_rank):
        for finding in findings:
            found.setdefault(replace(finding, ranks=()), []).append(rank)
    everyone = len(by_rank)
    return [
        finding if len(ranks) == everyone else replace(finding, ranks=tuple(ranks))
        for finding, ranks in found.items()
    ]
