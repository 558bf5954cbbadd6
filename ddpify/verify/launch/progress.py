"""How far a run is, and how long it will still take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

_STEP = b'{"event": "step"'
FIRST = 4.0
"""Seconds before which there is nothing to say."""


class Progress:
    """Reads the steps that a run has recorded so far; called with the seconds since its start.

    Args:
        record: The record of rank 0, which grows.
        expected: Steps in all; 0 where that is not known.
        echo: Takes a line.
    """

    def __init__(self, record: Path, expected: int, echo: Callable[[str], None]) -> None:
        self._record, self._expected, self._echo = record, expected, echo
        self._read = self._steps = 0

    def __call__(self, seconds: float) -> None:
        """Say where the run is."""
        if seconds < FIRST or not self._record.exists():
            return
        with self._record.open("rb") as lines:
            lines.seek(self._read)
            new = lines.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        self._steps += whole.count(_STEP)
        self._echo(f"  {self._said(seconds)}")

    def _said(self, seconds: float) -> str:
        if not self._expected or not self._steps:
            return f"step {self._steps}, {seconds:.0f} s"
        left = seconds * max(self._expected - self._steps, 0) / self._steps
        return f"step {self._steps} of {self._expected}, about {left:.0f} s left"
