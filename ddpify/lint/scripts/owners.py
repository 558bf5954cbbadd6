"""Which file a node is in."""

from __future__ import annotations

from typing import overload

import libcst as cst

from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import Structure


class Owners:
    """The file of each node; few of all nodes are asked about, but these again and again."""

    def __init__(self, structures: dict[ModuleFile, Structure]) -> None:
        self._structures = structures  # that of the file itself first
        self._known: dict[cst.CSTNode, ModuleFile | None] = {}

    @overload
    def get(self, node: cst.CSTNode) -> ModuleFile | None: ...
    @overload
    def get(self, node: cst.CSTNode, default: ModuleFile) -> ModuleFile: ...
    def get(self, node: cst.CSTNode, default: ModuleFile | None = None) -> ModuleFile | None:
        """The file of a node, or the default for one that is in no file."""
        if node not in self._known:
            holding = (file for file, one in self._structures.items() if node in one.order)
            self._known[node] = next(holding, None)
        return self._known[node] or default

    def __getitem__(self, node: cst.CSTNode) -> ModuleFile:
        file = self.get(node)
        if file is None:
            raise KeyError(node)
        return file

    def __contains__(self, node: cst.CSTNode) -> bool:
        return self.get(node) is not None
