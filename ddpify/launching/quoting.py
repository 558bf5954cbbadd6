"""Words for a shell."""

from __future__ import annotations

import re
import shlex


def shell_word(word: str) -> str:
    """A word as it is. What could look like a variable meant to be expanded is escaped."""
    if "$" in word or "`" in word:
        return '"' + re.sub(r'([\\$`"])', r"\\\1", word) + '"'
    return shlex.quote(word)
