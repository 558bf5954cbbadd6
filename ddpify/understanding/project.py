"""The files of a training script: the entry and the local modules that it imports."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from ddpify.errors import DdpifyError
from ddpify.source import Source, read_source
from ddpify.understanding.syntax import parents_of


class ModuleFile:
    """One parsed file; ``editable`` where a conversion may change it."""

    def __init__(self, source: Source, name: str, *, editable: bool) -> None:
        self.source = source
        self.name = name
        self.editable = editable
        self.tree: cst.Module = source.module

    @property
    def path(self) -> Path:
        """Where the file is."""
        return Path(self.source.path)

    @cached_property
    def parents(self) -> dict[cst.CSTNode, cst.CSTNode]:
        """Each node's parent."""
        return parents_of(self.tree)

    @cached_property
    def _positions(self) -> dict[cst.CSTNode, CodeRange]:
        wrapper = MetadataWrapper(self.tree, unsafe_skip_copy=True)
        return dict(wrapper.resolve(PositionProvider))

    def span(self, node: cst.CSTNode) -> CodeRange | None:
        """Where a node starts and ends, in lines from 1 and columns from 0."""
        return self._positions.get(node)

    def line(self, node: cst.CSTNode) -> int:
        """The line, from 1, at which a node starts."""
        position = self._positions.get(node)
        return position.start.line if position else 1

    def statement(self, node: cst.CSTNode) -> cst.CSTNode:
        """The statement that a node stands in: a simple one's line, or a compound one."""
        while not isinstance(node, cst.BaseStatement):
            node = self.parents[node]
        return node

    def function(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """The innermost function around a node."""
        while node in self.parents:
            node = self.parents[node]
            if isinstance(node, cst.FunctionDef):
                return node
        return None


def _python_path() -> list[Path]:
    """The folders of the environment's ``PYTHONPATH``."""
    given = os.environ.get("PYTHONPATH", "")
    return [Path(part).resolve() for part in given.split(os.pathsep) if part]


def _around(folder: Path) -> list[Path]:
    """The folders from the script's up to the root of its repository, if it is in one."""
    above = []
    for parent in folder.parents:
        above.append(parent)
        if any((parent / mark).exists() for mark in (".git", "pyproject.toml", "setup.py")):
            return above
    return []


class Project:
    """Finds and reads local modules, each once, as Python would from the entry's folder."""

    def __init__(self, entry: Source, *, roots: tuple[Path, ...] = ()) -> None:
        self.entry = ModuleFile(entry, "__main__", editable=True)
        folder = Path(entry.path).resolve().parent
        self.roots = (folder, *roots, *_python_path(), *_around(folder))
        self._files: dict[Path, ModuleFile | None] = {self.entry.path.resolve(): self.entry}

    @property
    def files(self) -> list[ModuleFile]:
        """All files that were read."""
        return [file for file in self._files.values() if file is not None]

    def resolve(self, name: str, importer: ModuleFile, level: int = 0) -> ModuleFile | None:
        """The local file that ``import name`` in ``importer`` reads, if it is a local one."""
        if level:
            base = importer.path.resolve().parent
            for _ in range(level - 1):
                base = base.parent
            return self._find(base, name)
        for root in self.roots:
            found = self._find(root, name)
            if found is not None:
                return found
        return None

    def _find(self, base: Path, name: str) -> ModuleFile | None:
        target = base.joinpath(*name.split(".")) if name else base
        for candidate in (target.with_suffix(".py") if name else None, target / "__init__.py"):
            if candidate is not None and candidate.is_file():
                return self._read(candidate, name)
        return None

    def _read(self, path: Path, name: str) -> ModuleFile | None:
        path = path.resolve()
        if path not in self._files:
            try:
                self._files[path] = ModuleFile(read_source(path), name, editable=False)
            except DdpifyError:
                self._files[path] = None  # unreadable: as unknown as a library
        return self._files[path]
