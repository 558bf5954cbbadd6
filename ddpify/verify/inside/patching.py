"""Replacing attributes of libraries inside a process that exists for one run of one script."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

faked: Counter[str] = Counter()
"""How often each call was answered by something else than the real thing, by its public name."""

devices: Counter[int] = Counter()
"""How often each simulated GPU was used, by its index."""

current_gpu = [0]
"""Index of the simulated GPU that this process is set to."""

UNINDEXED = -1
"""Index in ``devices`` of ``torch.device("cuda")``: which GPU that is, its use decides."""


def devices_used() -> dict[int, int]:
    """How often each simulated GPU was used, now that the process is set to its own.

    A script that shows itself one GPU alone, by ``CUDA_VISIBLE_DEVICES``, uses that one as its 0.
    """
    used = Counter(devices)
    if unindexed := used.pop(UNINDEXED, 0):
        used[current_gpu[0]] += unindexed
    only = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if only.isdecimal() and 0 in used:
        first = used.pop(0)
        used[int(only)] += first
    return dict(used)


def replace(owner: Any, name: str, value: Any) -> Any:
    """Set ``owner.name`` to ``value`` and return what was there (None where nothing was)."""
    before = getattr(owner, name, None)
    setattr(owner, name, value)
    return before


def answer(owner: Any, name: str, value: Any, public: str) -> None:
    """Make ``owner.name(...)`` count a faked call under ``public`` and return ``value``.

    ``value`` is called with the arguments where it is callable.
    """

    def stand_in(*args: Any, **kwargs: Any) -> Any:
        faked[public] += 1
        return value(*args, **kwargs) if callable(value) else value

    stand_in.__name__ = name
    setattr(owner, name, stand_in)
