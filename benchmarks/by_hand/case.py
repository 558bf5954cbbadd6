"""An edit of a port by hand, and what verify must say about it."""

from __future__ import annotations

from dataclasses import dataclass

Edit = tuple[str, str]


@dataclass(frozen=True)
class Case:
    """One edit of a port.

    Attributes:
        name: What it is.
        edits: Text to replace and its replacement; the text is there exactly once.
        rules: Codes that are right as the first one suspected.
        words: A regular expression: what the first difference or its cause may say instead.
        both: Edits of the original as well as of the port.
        allowed: Causes, by name, that a right variant is equivalent but for.
    """

    name: str
    edits: tuple[Edit, ...]
    rules: tuple[str, ...] = ()
    words: str = ""
    both: tuple[Edit, ...] = ()
    allowed: tuple[str, ...] = ()

    @property
    def is_bug(self) -> bool:
        """Whether verify must refuse it."""
        return bool(self.rules or self.words)
