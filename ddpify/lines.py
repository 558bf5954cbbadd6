"""Lines and columns of a text's characters."""

from __future__ import annotations

import re
from bisect import bisect_right

_NEWLINE = re.compile(r"\r\n?|\n")


def line_starts(text: str) -> list[int]:
    """The offset at which each line starts."""
    return [0, *(match.end() for match in _NEWLINE.finditer(text))]


class Lines:
    """Turns offsets of a text into lines from 1 and columns from 0."""

    def __init__(self, text: str) -> None:
        self.starts = line_starts(text)

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column."""
        line = bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1]
