"""Places in the code, and how the run came to them."""

from __future__ import annotations

import libcst as cst

from ddpify.records import record
from ddpify.understanding.project import ModuleFile


@record
class Site:
    """A node and its file."""

    node: cst.CSTNode
    module: ModuleFile

    @property
    def line(self) -> int:
        """1-based line."""
        return self.module.line(self.node)


Calls = tuple[Site, ...]  # in progress, outermost first


Place = tuple[cst.CSTNode, int]  # where a batch is made, and the dimension of its rows there
