"""Where findings and fixes stand in the text."""

from __future__ import annotations

import libcst as cst

from ddpify.lint.diagnostics import Span
from ddpify.understanding.project import ModuleFile


class Positions:
    """Spans and offsets of one file's nodes."""

    def __init__(self, module: ModuleFile) -> None:
        self.module = module

    def span(self, node: cst.CSTNode) -> Span:
        """Lines and columns from 1; the header alone of a compound statement."""
        begin, end = self.module.offsets(node)
        line, column = self.module.lines.place(begin)
        if isinstance(node, (cst.BaseCompoundStatement, cst.Module)):
            return Span(line, column + 1, line, column + 2)
        end_line, end_column = self.module.lines.place(end)
        return Span(line, column + 1, end_line, end_column + 1)

    def offsets(self, node: cst.CSTNode) -> tuple[int, int]:
        """The characters of the text that a node covers."""
        return self.module.offsets(node)

    def line_start(self, node: cst.CSTNode) -> int:
        """The offset at which the line of a node's start begins."""
        return self.module.lines.starts[self.module.line(node) - 1]

    def indentation(self, node: cst.CSTNode) -> str:
        """The white space before a node's line."""
        start = self.line_start(node)
        text = self.module.source.text
        end = start
        while text[end : end + 1] in (" ", "\t"):
            end += 1
        return text[start:end]
