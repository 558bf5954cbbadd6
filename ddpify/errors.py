"""What ddpify tells a person when it cannot go on: where, what, and the way out."""

from __future__ import annotations

import os
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every ddpify command."""

    DONE = 0
    NOT_CONVERTED = 1
    USAGE = 2


class DdpifyError(Exception):
    """An end of work that is the script's or the command's, never a defect of ddpify.

    The command line prints ``str(error)`` to stderr and exits with ``exit_code``.

    Args:
        message: One sentence without a final full stop.
        path: The file that it is about.
        line: 1-based line in ``path``.
        column: 1-based column in ``line``.
        remedy: What the person can do about it.
        exit_code: ``NOT_CONVERTED`` (readable, but refused) or ``USAGE`` (bad command, unreadable
            input).
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | os.PathLike[str] | None = None,
        line: int | None = None,
        column: int | None = None,
        remedy: str | None = None,
        exit_code: int = ExitCode.NOT_CONVERTED,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = None if path is None else os.fspath(path)
        self.line = line
        self.column = column
        self.remedy = remedy
        self.exit_code = int(exit_code)

    @property
    def location(self) -> str:
        """``path:line:column`` as far as they are known; empty without a path."""
        if self.path is None:
            return ""
        parts = [self.path]
        if self.line is not None:
            parts.append(str(self.line))
            if self.column is not None:
                parts.append(str(self.column))
        return ":".join(parts)

    def __str__(self) -> str:
        head = f"{self.location}: {self.message}" if self.path is not None else self.message
        return head if self.remedy is None else f"{head}\n  remedy: {self.remedy}"
