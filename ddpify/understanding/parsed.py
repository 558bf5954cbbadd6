"""What is worked out of one file's text, whichever scripts import it."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from ddpify.lines import Lines
from ddpify.understanding.offsets import Offsets, rendered
from ddpify.understanding.structure import Structure
from ddpify.understanding.taint.scopes import Scopes, scopes_of


class Parsed:
    """A file's tree, and what follows from it alone; the same for all that share the file."""

    def __init__(self, tree: cst.Module, text: str) -> None:
        self.tree = tree
        self.text = text

    @cached_property
    def structure(self) -> Structure:
        """The order of the nodes and what encloses each."""
        return Structure(self.tree)

    @cached_property
    def scopes(self) -> Scopes:
        """Which function, loop or block each name belongs to."""
        return scopes_of(self.structure)

    @cached_property
    def _rendered(self) -> tuple[str, dict[cst.CSTNode, Offsets]]:
        return rendered(self.tree)

    @property
    def code(self) -> str:
        """What the tree gives back."""
        return self._rendered[0]

    @property
    def offsets(self) -> dict[cst.CSTNode, Offsets]:
        """The characters of the code that each node covers."""
        return self._rendered[1]

    @cached_property
    def lines(self) -> Lines:
        """Lines and columns of the text's offsets."""
        return Lines(self.text)
