"""How a forked process of the tests ends."""

from __future__ import annotations

import atexit
import gc
import io
import os
import signal
import sys
import threading
from typing import Any, NoReturn


def leave(script: dict[str, Any], status: int = 0) -> NoReturn:
    """End as the interpreter ends a script with the same effects.

    What is left out is the freeing of all that torch has made: most scripts take less time.

    Args:
        script: The script's names, which are freed.
        status: The exit status; the signal that ends the process, where it is negative.
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
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)
