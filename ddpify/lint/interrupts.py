"""Ctrl-C while a pool of processes works: the terminal sends it to each of them.

Left to itself, a process of the pool prints a traceback and takes the next file.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import active_children


@contextmanager
def held() -> Iterator[None]:
    """Ctrl-C waits until the end of the block; processes that start in it never get it."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_children() -> None:
    """End the processes of a pool at once, whatever they work on."""
    for process in active_children():
        process.terminate()
