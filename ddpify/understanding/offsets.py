"""Where nodes stand in a file's text: one rendering of the tree notes it for all of them.

LibCST's own provider makes three objects for each node and splits every token by lines. Here a node
costs two numbers; lines and columns follow from them for the few nodes that anybody asks about.
"""

from __future__ import annotations

from types import TracebackType

import libcst as cst
from libcst._nodes.internal import CodegenState

Offsets = tuple[int, int]


def rendered(module: cst.Module) -> tuple[str, dict[cst.CSTNode, Offsets]]:
    """The module's code, and the characters of it that each node covers, without space around."""
    state = _State(module.default_indent, module.default_newline)
    module._codegen(state)
    return "".join(state.tokens), state.known


class _Recording:
    """Notes what a node covers while the block of a ``with`` renders its own tokens."""

    def __init__(
        self, state: _State, node: cst.CSTNode, first: cst.CSTNode | None, last: cst.CSTNode | None
    ) -> None:
        self.state, self.node, self.first, self.last = state, node, first, last

    def __enter__(self) -> None:
        self.begin = self.state.at

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        known = self.state.known
        begin = known[self.first][0] if self.first is not None else self.begin
        end = known[self.last][1] if self.last is not None else self.state.at
        known[self.node] = (begin, end)


class _State(CodegenState):
    """Receives the tokens of a tree in order, as LibCST's provider does."""

    def __init__(self, indent: str, newline: str) -> None:
        super().__init__(indent, newline)
        self.at = 0
        self.known: dict[cst.CSTNode, Offsets] = {}
        self._begun: list[int] = []

    def add_indent_tokens(self) -> None:
        for token in self.indent_tokens:
            self.add_token(token)

    def add_token(self, value: str) -> None:
        self.tokens.append(value)
        self.at += len(value)

    def before_codegen(self, node: cst.CSTNode) -> None:
        self._begun.append(self.at)

    def after_codegen(self, node: cst.CSTNode) -> None:
        begin = self._begun.pop()
        if node not in self.known:  # what it recorded itself leaves out the space around it
            self.known[node] = (begin, self.at)

    def record_syntactic_position(  # type: ignore[override]
        self,
        node: cst.CSTNode,
        *,
        start_node: cst.CSTNode | None = None,
        end_node: cst.CSTNode | None = None,
    ) -> _Recording:
        return _Recording(self, node, start_node, end_node)
