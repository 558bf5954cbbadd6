"""Where nodes are in the text: computed once, for files that have findings."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from ddpify.lint.diagnostics import Span
from ddpify.lint.suppressions import line_starts
from ddpify.understanding.project import ModuleFile


class Positions:
    """Spans and offsets of one file's nodes."""

    def __init__(self, module: ModuleFile) -> None:
        self.module = module

    @cached_property
    def _starts(self) -> list[int]:
        return line_starts(self.module.source.text)

    def span(self, node: cst.CSTNode) -> Span:
        """Lines and columns from 1; the header alone of a compound statement."""
        found = self.module.span(node)
        if found is None:
            return Span(1, 1, 1, 1)
        start, end = found.start, found.end
        if isinstance(node, (cst.BaseCompoundStatement, cst.Module)):
            return Span(start.line, start.column + 1, start.line, start.column + 1 + 1)
        return Span(start.line, start.column + 1, end.line, end.column + 1)

    def offsets(self, node: cst.CSTNode) -> tuple[int, int]:
        """The characters of the text that a node covers."""
        found = self.module.span(node)
        assert found is not None
        begin = self._starts[found.start.line - 1] + found.start.column
        return begin, self._starts[found.end.line - 1] + found.end.column

    def line_start(self, node: cst.CSTNode) -> int:
        """The offset at which the line of a node's start begins."""
        found = self.module.span(node)
        assert found is not None
        return self._starts[found.start.line - 1]

    def indentation(self, node: cst.CSTNode) -> str:
        """The white space before a node's line."""
        start = self.line_start(node)
        text = self.module.source.text
        end = start
        while text[end : end + 1] in (" ", "\t"):
            end += 1
        return text[start:end]
