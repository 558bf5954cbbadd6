"""SIGTERM: an end at the next step, after a snapshot; at once where no step can come."""

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from types import FrameType

from ddpify.runtime.failures import some_rank_failed
from ddpify.runtime.process import rank, world_size

STOPPED = 128 + signal.SIGTERM
_SECONDS = 25.0  # torchrun, like others, sends SIGKILL after 30

_asked = threading.Event()


def asked_to_stop() -> bool:
    """Whether this process has got SIGTERM."""
    return _asked.is_set()


def watch_for_sigterm() -> None:
    """Let SIGTERM be noticed from now on, even while the script waits for other ranks.

    Python calls handlers between two of its instructions only, which a script that waits in a
    collective does not come to: a thread watches, and ends the process where the script does not.
    Nothing outside of the main thread, or where the script has a handler of its own.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    signal.signal(signal.SIGTERM, _remember)
    signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    os.register_at_fork(after_in_child=_forget)
    threading.Thread(target=_watch, args=(receiver, sender), daemon=True).start()


def _remember(number: int, frame: FrameType | None) -> None:
    _asked.set()


def _forget() -> None:
    """A forked child, such as a loader's worker, is ended by SIGTERM as any other."""
    with contextlib.suppress(ValueError):
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _watch(receiver: socket.socket, _: socket.socket) -> None:
    while signal.SIGTERM not in receiver.recv(64):
        pass
    _asked.set()
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until:
        if world_size() > 1 and some_rank_failed():
            break
        time.sleep(0.1)
    sys.stderr.write(f"[rank {rank()}] SIGTERM: no step came in time for a snapshot; ending\n")
    sys.stderr.flush()
    os._exit(STOPPED)
