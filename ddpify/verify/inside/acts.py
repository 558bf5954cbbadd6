"""What a rank does outside of the process besides writing: files that it reads, folders that it
makes, and addresses that it asks for."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

MAX_READ = 2_000
_WRITING = os.O_WRONLY | os.O_RDWR
_CODE = (".py", ".pyc", ".so")
_SYSTEM = ("/proc/", "/dev/", "/sys/", sys.prefix + os.sep, sys.base_prefix + os.sep)


class Acts:
    """Watches this process until it ends.

    Args:
        emit: Takes each event: a kind and its values.
        caller: Tells the script's line that is running; empty while it imports something.
    """

    def __init__(self, emit: Callable[..., None], caller: Callable[[], str]) -> None:
        self._emit, self._caller = emit, caller
        self._read = 0
        self._busy = False

    def install(self) -> None:
        """An audit hook stays until the process ends."""
        kinds: dict[str, Callable[[tuple[Any, ...]], None]] = {
            "open": self._opened,
            "os.mkdir": self._made,
            "urllib.Request": self._asked,
        }

        def audit(event: str, args: tuple[Any, ...]) -> None:
            tell = kinds.get(event)
            if tell is None or self._busy:
                return
            self._busy = True
            try:
                tell(args)
            finally:
                self._busy = False

        sys.addaudithook(audit)

    def _opened(self, args: tuple[Any, ...]) -> None:
        path, flags = args[0], args[2] if isinstance(args[2], int) else 0
        if flags & _WRITING or self._read >= MAX_READ or not isinstance(path, (str, bytes)):
            return
        name = os.path.abspath(os.fsdecode(path))
        if name.endswith(_CODE) or name.startswith(_SYSTEM) or os.path.isdir(name):
            return
        if at := self._caller():
            self._read += 1
            self._emit("read", path=name, at=at)

    def _made(self, args: tuple[Any, ...]) -> None:
        if isinstance(args[0], (str, bytes, os.PathLike)) and (at := self._caller()):
            self._emit("folder", path=os.path.abspath(os.fsdecode(args[0])), at=at)

    def _asked(self, args: tuple[Any, ...]) -> None:
        url, data = str(args[0]), args[1]
        if data is None and "://127.0.0.1" not in url and (at := self._caller()):
            self._emit("request", url=url, at=at)
