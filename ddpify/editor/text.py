"""Places in a text as the Language Server Protocol counts them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lsprotocol import types

from ddpify.lines import Lines
from ddpify.lint.diagnostics import Edit, Span


class Text:
    """A text whose places are wanted as positions of an editor.

    Args:
        source: The whole text.
        units: How long a piece of a line is in the units that the editor counts columns in.
    """

    def __init__(self, source: str, units: Callable[[str], int]) -> None:
        self.source = source
        self._units = units
        self._lines = Lines(source)

    def range(self, span: Span) -> types.Range:
        """Of a finding."""
        start = self._at(span.line, span.column - 1)
        end = self._at(span.end_line, span.end_column - 1)
        return types.Range(start, end)

    def edits(self, edits: Sequence[Edit]) -> list[types.TextEdit]:
        """Of a fix."""
        return [
            types.TextEdit(types.Range(self._place(one.start), self._place(one.end)), one.text)
            for one in edits
        ]

    def line(self, number: int) -> str:
        """A line by its 1-based number, without what ends it; "" where there is none."""
        return self.source[self.start(number) : self.start(number + 1)].rstrip("\r\n")

    def start(self, number: int) -> int:
        """The offset at which a line starts, by its 1-based number; the text's end behind all."""
        starts = self._lines.starts
        return starts[number - 1] if number <= len(starts) else len(self.source)

    def _place(self, offset: int) -> types.Position:
        return self._at(*self._lines.place(offset))

    def _at(self, line: int, column: int) -> types.Position:
        """A 1-based line and a column in characters from 0."""
        return types.Position(line - 1, self._units(self.line(line)[:column]))
