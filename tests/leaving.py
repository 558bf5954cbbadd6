"""How the tests fork processes that have imported torch, and how these end."""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys
import threading
import weakref
from typing import Any, NoReturn


def make_cheap_to_fork() -> None:
    """Let forks of this process share what it has imported, and leave it alone when they end.

    A collection of garbage in a fork would touch, and so copy, every object of torch. So would the
    finalizers by which torch takes its operator libraries apart.
    """
    for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]
        finalizer.atexit = False
    gc.freeze()


def leave(script: dict[str, Any]) -> NoReturn:
    """End as the interpreter ends a script that has not failed, with the same effects.

    What is left out is the freeing of all that torch has made: most scripts take less time.

    Args:
        script: The script's names, which are freed.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    script.clear()
    gc.collect()
    for one in gc.get_objects():
        if isinstance(one, io.IOBase) and not one.closed and one.writable():
            one.flush()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
