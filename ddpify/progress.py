"""Shows how far long work is: on stderr where that is a terminal, after a second; else nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Timer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

_DELAY = 1.0  # seconds: what takes less shows nothing, and never loads rich


class _Display:
    """A line of progress, which a timer puts on the screen while the work goes on."""

    def __init__(self, unit: str, total: int | None) -> None:
        self.unit, self._total, self._done = unit, total, 0
        self._lock, self._ended = Lock(), False
        self._shown: Progress | None = None
        self._timer = Timer(_DELAY, self._start)
        self._timer.daemon = True
        self._timer.start()

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
        console = Console(stderr=True)
        with self._lock:
            if not self._ended and console.is_interactive:
                self._shown = Progress(*columns, console=console, transient=True)
                self._shown.add_task(self._text)
                self._shown.start()

    @property
    def _text(self) -> str:
        of = "" if self._total is None else f" of {self._total:,}"
        return f"ddpify: {self.unit} {self._done:,}{of}"

    def advance(self) -> None:
        with self._lock:
            self._done += 1
            if self._shown is not None:
                self._shown.update(self._shown.task_ids[0], description=self._text)

    def end(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._ended = True
            if self._shown is not None:
                self._shown.stop()


_displays: list[_Display] = []  # of the work in progress


@contextmanager
def shown(unit: str, total: int | None = None) -> Iterator[None]:
    """Inside, work is done whose progress is shown, as in ``file 3 of 40``."""
    if not sys.stderr.isatty():
        yield
        return
    _displays.append(display := _Display(unit, total))
    try:
        yield
    finally:
        _displays.remove(display)
        display.end()


def advance(unit: str) -> None:
    """One more ``unit`` of the work in progress is done, or begun where there is no total."""
    for display in _displays:
        if display.unit == unit:
            display.advance()
