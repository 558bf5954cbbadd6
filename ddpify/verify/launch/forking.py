"""What makes forks of a process that has imported torch cheap."""

from __future__ import annotations

import gc
import weakref


def share_with_forks() -> None:
    """Let forks of this process share what it has imported, and leave it alone when they end.

    A collection of garbage in a fork would touch, and so copy, every object of torch. So would the
    finalizers by which torch takes its operator libraries apart.
    """
    for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]
        finalizer.atexit = False
    gc.freeze()
