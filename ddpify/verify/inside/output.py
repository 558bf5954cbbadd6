"""Every line that the script prints or logs, with the line of the script that did it."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from typing import Any

MAX_LINES = 5_000
MAX_LENGTH = 200


def install(
    emit: Callable[..., None],
    caller: Callable[[], str],
    origins: Callable[[str], Sequence[int]] = lambda line: (),
) -> None:
    """Replace the standard streams of this process.

    Args:
        emit: Takes each event: a kind and its values.
        caller: Tells the script's line that is running.
        origins: Tells what the numbers in a line were computed from.
    """
    sys.stdout = sys.__stdout__ = _RecordedStream(1, emit, caller, origins)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _RecordedStream(2, emit, caller, origins)  # type: ignore[misc]


class _RecordedStream(io.TextIOWrapper):
    """A stream that tells of the lines written to it; of standard error, those of ``logging``."""

    def __init__(
        self,
        descriptor: int,
        emit: Callable[..., None],
        caller: Callable[[], str],
        origins: Callable[[str], Sequence[int]],
    ) -> None:
        raw = io.FileIO(descriptor, "w", closefd=False)
        super().__init__(io.BufferedWriter(raw), "utf-8", "backslashreplace", line_buffering=True)
        self._only_logging, self._caller, self._emit = descriptor == 2, caller, emit
        self._origins = origins
        self._pending, self._count = "", 0

    def write(self, text: str) -> int:
        """Write ``text``; a line counts when its end is written."""
        if self._count < MAX_LINES and not (self._only_logging and not _logging()):
            *lines, self._pending = (self._pending + text).split("\n")
            for line in lines:
                self._count += 1
                self._tell(line)
        return super().write(text)

    def _tell(self, line: str) -> None:
        origins = list(self._origins(line))
        self._emit("print", text=line[:MAX_LENGTH], at=self._caller(), origins=origins)


def _logging() -> bool:
    """Whether the module ``logging`` is what writes."""
    frame: Any = sys._getframe(2)
    return frame is not None and frame.f_globals.get("__name__") == "logging"
