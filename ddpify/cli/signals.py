"""How a command that starts other processes ends by a signal."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn


@contextlib.contextmanager
def exit_on_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the command as an exception does, so that it tidies up."""
    ended_by = {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}
    before = {number: signal.signal(number, _exit) for number in ended_by}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)
