"""The end of a rank that fails, and what the ranks tell each other about it.

Where one rank fails, the others fail soon after it, in whatever they wait for. The ranks note in
the store of the process group what happened to them, so that each says why the training ended:
which rank failed first, and how.
"""

import contextlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch.distributed as dist

_GRACE = 2.0  # seconds for the ranks to notice and note a failure
_FAILED = "ddpify/failed"
_LEFT = "ddpify/left"
_LOST_KEY = "ddpify/lost"

_LOST_WORDS = (
    "connection closed", "connection reset", "connection refused", "broken pipe", "socket",
    "timed out", "timeout", "remote process exited", "nccl communicator was aborted",
)  # fmt: skip

_start_store: Any = None
_store_is_gone = False


def note_in(store: Any) -> None:
    """The store that all ranks of this start can reach, and no others."""
    global _start_store
    _start_store = store


def end_rank(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
    """Say why this rank ends, under its name, and end it at once.

    An orderly exit could wait for the other ranks, which wait for this one: only the end of the
    process, which closes its connections, frees them.
    """
    text = "".join(traceback.format_exception(kind, value, trace))
    if _is_lost_connection(value):
        words = str(value).lower()
        cause = _cause(waited="timed out" in words or "timeout" in words)
    else:
        cause = ""
        _note(_FAILED, f"rank {_rank()}: {kind.__name__}: {value}")
    with contextlib.suppress(ValueError, OSError):
        sys.stdout.flush()
    if cause:
        text += f"ended because of {cause}\n"
    sys.stderr.write("".join(f"[rank {_rank()}] {line}" for line in text.splitlines(True)))
    sys.stderr.flush()
    _tell_launcher(text)
    os._exit(130 if issubclass(kind, KeyboardInterrupt) else 1)


def leave() -> None:
    """Note that this rank's script is over."""
    _note(f"{_LEFT}/{_rank()}", "left")
    with contextlib.suppress(Exception):
        _start_store.add(_LEFT, 1)


def all_have_left(seconds: float = 5.0) -> bool:
    """Whether the scripts of all other ranks end, too, within so many seconds."""
    if not dist.is_initialized():
        return True
    until = time.monotonic() + seconds
    leave_count = _size() - 1 if _rank() == 0 else 0
    with contextlib.suppress(Exception):
        while time.monotonic() < until:
            if _start_store.add(_LEFT, 0) >= leave_count:
                return True
            time.sleep(0.02)
    return False


def some_rank_failed() -> bool:
    """Whether the training cannot go on, since a rank has failed."""
    try:
        return bool(_start_store.check([_FAILED]))
    except Exception:
        return True  # whoever held the store is gone


def _is_lost_connection(value: BaseException) -> bool:
    """Whether an error only says that another rank is not there any more."""
    if _start_store is None or not isinstance(value, RuntimeError):
        return False
    if isinstance(value, dist.DistBackendError | dist.DistNetworkError):
        return True
    text = str(value).lower()
    return any(word in text for word in _LOST_WORDS) and "dataloader" not in text


def _cause(*, waited: bool) -> str:
    """What the ranks know of the first failure: noted by the rank itself, or by its absence."""
    _note(f"{_LOST_KEY}/{_rank()}", "lost")
    until = time.monotonic() + _GRACE
    while time.monotonic() < until and not _store_is_gone:
        found = _noted(_FAILED)
        if found:
            return found
        time.sleep(0.05)
    if _store_is_gone:  # torchrun did not keep it: rank 0 did
        return (
            "rank 0: it has ended, and what the ranks noted is gone with it (see what it printed)"
        )
    silent = [str(r) for r in range(_size()) if not _noted(f"{_LOST_KEY}/{r}")]
    left = [r for r in silent if _noted(f"{_LEFT}/{r}")]
    ranks = f"rank {', '.join(left or silent)}"
    if not silent:
        found = "a connection between ranks that was lost"
    elif left:
        found = f"{ranks}: the end of its script, or sys.exit(), while others were training"
    elif waited:
        found = f"{ranks}: stalled, while the others waited for it until their timeout"
    else:
        found = f"{ranks}: ended without a word (killed, or out of memory)"
    _note(_FAILED, found)
    return _noted(_FAILED) or found


def _tell_launcher(text: str) -> None:
    """Leave the error for torchrun, which prints the first of all ranks' last."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path:
        return
    extra = {"py_callstack": text, "timestamp": str(int(time.time()))}
    with contextlib.suppress(OSError), open(path, "w") as file:
        json.dump({"message": {"message": text.splitlines()[-1], "extraInfo": extra}}, file)


def _note(key: str, text: str) -> None:
    def write(store: Any) -> None:
        if not store.check([key]):
            store.set(key, text)

    _ask(write)


def _noted(key: str) -> str:
    def read(store: Any) -> str:
        return store.get(key).decode() if store.check([key]) else ""

    return _ask(read) or ""


def _ask(question: Callable[[Any], Any]) -> Any:
    """The store's answer; None where there is none.

    Once whoever held the store is gone, it is not asked again: torch prints a trace each time.
    """
    global _store_is_gone
    if not _store_is_gone:
        try:
            return question(_start_store)
        except dist.DistNetworkError:
            _store_is_gone = True
        except Exception:
            pass
    return None


def _rank() -> int:
    return int(os.environ.get("RANK") or 0)


def _size() -> int:
    return int(os.environ.get("WORLD_SIZE") or 1)
