"""Scripts for older versions of Python.

``x.cuda(async=True)`` is how PyTorch was called before Python 3.7 made a keyword of the name.
"""

from __future__ import annotations

import io
import re
import tokenize
from itertools import pairwise

OLD, NEW = "async", "non_blocking"
# What Python says of statements that it once had, and what those look like where it says nothing.
_SAID = re.compile(
    "Missing parentheses in call to|leading zeros in decimal"
    "|inconsistent use of tabs|cannot be parenthesized"
)
_LOOKS = re.compile(r"^\s*raise [\w.]+,|<>|`|\b\d+[lL]\b|\bur[\"']")


def is_python_2(error: SyntaxError) -> bool:
    """Whether what Python refuses to compile is a line of Python 2, which 2to3 converts."""
    text = error.text or ""
    return bool(_SAID.search(error.msg or "") or _LOOKS.search(text))


def without_async(text: str) -> tuple[str, tuple[int, ...]]:
    """The text with ``non_blocking=`` for each ``async=``, and the lines where those are.

    text: of a script, which Python refuses to compile. Text and line endings else stay.
    """
    places = async_places(text)
    lines = text.splitlines(keepends=True)
    for row, column in reversed(places):
        line = lines[row - 1]
        lines[row - 1] = line[:column] + NEW + line[column + len(OLD) :]
    return "".join(lines), tuple(sorted({row for row, _ in places}))


def async_places(text: str) -> list[tuple[int, int]]:
    """Where a text has ``async=``: lines from 1, columns from 0; none where it has no tokens."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text, newline="").readline))
    except (tokenize.TokenError, SyntaxError):
        return []
    return [
        one.start
        for one, following in pairwise(tokens)
        if one.string == OLD and following.string == "="
    ]
