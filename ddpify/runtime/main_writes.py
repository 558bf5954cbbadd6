"""Files that code which stays as it is opens for writing: those of rank 0."""

import builtins
import contextlib
import io
import os
from collections.abc import Iterator
from typing import Any

from ddpify.runtime.process import barrier, is_main, rank, world_size


@contextlib.contextmanager
def main_writes() -> Iterator[None]:
    """Inside, what is opened to be written is the null device on ranks other than 0.

    That holds in code of other modules too, and for as long as they keep the file. What is read is
    read: ranks run the body one after another, and rank 0, which may change it, comes last. What
    is opened to be read and written is a copy in memory on the other ranks.
    A collective: every rank enters, and the body holds no collective.
    """
    plain = builtins.open, io.open
    for _ in range(world_size() - 1 - rank()):
        barrier()
    if not is_main():
        builtins.open = io.open = _nowhere
    try:
        yield
    finally:
        builtins.open, io.open = plain
        for _ in range(rank()):
            barrier()


_open = io.open


def _nowhere(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
    if any(letter in mode for letter in "wax"):
        return _open(os.devnull, mode.replace("x", "w"), *args, **kwargs)
    read = _open(file, mode.replace("+", ""), *args, **kwargs)
    if "+" not in mode:
        return read
    with read:
        held = read.read()
    return io.StringIO(held) if isinstance(held, str) else io.BytesIO(held)
