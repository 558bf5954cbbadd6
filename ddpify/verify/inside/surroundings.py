"""Surroundings that differ between processes and that no script may rely on.

Files are listed in another order on each rank other than 0. (The random states and the seed of
string hashes differ too: see ``rank`` and ``launch.worker``.)
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from typing import Any

from ddpify.verify.inside.patching import replace


def install(rank: int, listed: Callable[[], None]) -> None:
    """Disturb the order in which folders are listed.

    Args:
        rank: Not 0, which keeps the original's order.
        listed: Called when a folder was listed in another order.
    """
    order = random.Random(rank)
    listdir, scandir = os.listdir, os.scandir

    def shuffled_names(path: Any = ".") -> list[Any]:
        names = sorted(listdir(path), key=repr)
        order.shuffle(names)
        listed()
        return names

    def shuffled_entries(path: Any = ".") -> _Entries:
        with scandir(path) as found:
            entries = sorted(found, key=lambda entry: repr(entry.name))
        order.shuffle(entries)
        listed()
        return _Entries(entries)

    replace(os, "listdir", shuffled_names)
    replace(os, "scandir", shuffled_entries)


class _Entries:
    """What ``os.scandir`` returns: an iterator that can be closed."""

    def __init__(self, entries: list[Any]) -> None:
        self._entries: Iterator[Any] = iter(entries)

    def __iter__(self) -> _Entries:
        return self

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop what is left."""
        self._entries = iter(())
