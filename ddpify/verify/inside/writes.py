"""Tell of the files that a script opens for writing, without keeping it from anything."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import torch

from ddpify.verify.inside.patching import replace

_WRITING = os.O_WRONLY | os.O_RDWR


def install(emit: Callable[..., None], caller: Callable[[], str]) -> None:
    """Watch this process until it ends.

    Args:
        emit: Takes each event: a kind and its values.
        caller: Tells the script's line that is running.
    """
    busy = [False]

    def audit(event: str, args: tuple[Any, ...]) -> None:
        if event != "open" or busy[0] or not isinstance(args[0], (str, bytes)):
            return
        flags = args[2] if isinstance(args[2], int) else 0
        if not flags & _WRITING:
            return
        busy[0] = True
        try:
            if at := caller():
                emit("write", path=os.path.abspath(os.fsdecode(args[0])), at=at)
        finally:
            busy[0] = False

    sys.addaudithook(audit)
    _watch_saves(emit, caller)


def _watch_saves(emit: Callable[..., None], caller: Callable[[], str]) -> None:
    """Checkpoints, which compiled code opens."""
    real = torch.save

    def save(value: Any, file: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(file, (str, os.PathLike)) and (at := caller()):
            emit("write", path=os.path.abspath(file), at=at)
        real(value, file, *args, **kwargs)

    replace(torch, "save", save)
