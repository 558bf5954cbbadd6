"""The files of a training script: the entry and the local modules that it imports."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import libcst as cst

from ddpify.errors import DdpifyError
from ddpify.lines import Lines
from ddpify.source import Source, read_source
from ddpify.understanding import added_folders
from ddpify.understanding.budget import Budget
from ddpify.understanding.libraries.runtime_names import is_runtime, is_vendored
from ddpify.understanding.marked_targets import IGNORED, is_mark
from ddpify.understanding.offsets import Offsets
from ddpify.understanding.parsed import Parsed
from ddpify.understanding.searching import LARGEST_MODULE, real_path, roots_of
from ddpify.understanding.structure import Structure, walk

Node = TypeVar("Node", bound="cst.CSTNode")


class ModuleFile:
    """One parsed file; ``editable`` where a conversion may change it."""

    def __init__(
        self, source: Source, name: str, *, editable: bool, parsed: Parsed | None = None
    ) -> None:
        self.source = source
        self.name = name
        self.editable = editable
        self.parsed = parsed if parsed is not None else Parsed(source.module, source.text)
        self.tree: cst.Module = self.parsed.tree
        # Of tensors, by the expressions that make them: as far as these alone tell it.
        self.dimensions: dict[cst.BaseExpression, int] = {}

    @cached_property
    def path(self) -> Path:
        """Where the file is."""
        return Path(self.source.path)

    @cached_property
    def folder(self) -> str:
        """The folder that it is in, links followed."""
        return os.path.dirname(os.path.realpath(self.source.path))

    @property
    def structure(self) -> Structure:
        """The order of its nodes and what encloses each."""
        return self.parsed.structure

    @property
    def parents(self) -> dict[cst.CSTNode, cst.CSTNode]:
        """Each node's parent."""
        return self.structure.parents

    @cached_property
    def changes_search(self) -> bool:
        """Whether it may change where Python looks for modules."""
        return "sys.path" in self.source.text

    @cached_property
    def reads_modes(self) -> bool:
        """Whether its code may ask a model for its mode."""
        return ".training" in self.source.text

    @cached_property
    def marks_targets(self) -> bool:
        """Whether its code may mark targets that a loss leaves out, if it is told nothing else."""
        written = str(IGNORED) in self.source.text
        return written and any(map(is_mark, walk(self.tree)))

    @property
    def lines(self) -> Lines:
        """Lines and columns of the text's offsets."""
        return self.parsed.lines

    def offsets(self, node: cst.CSTNode) -> Offsets:
        """The characters of the text that a node of the file covers."""
        return self.parsed.offsets.get(node, (0, 0))

    def line(self, node: cst.CSTNode) -> int:
        """The line, from 1, at which a node starts."""
        return self.lines.place(self.offsets(node)[0])[0]

    def statement(self, node: cst.CSTNode) -> cst.CSTNode:
        """The statement that a node stands in: a simple one's line, or a compound one."""
        while not isinstance(node, cst.BaseStatement):
            node = self.parents[node]
        return node

    def part(self, node: cst.CSTNode) -> cst.CSTNode:
        """The same, but of a line of several, or behind a colon, the one that it stands in."""
        line: cst.CSTNode = node
        while not isinstance(line, (cst.BaseStatement, cst.SimpleStatementSuite)):
            node, line = line, self.parents[line]
        apart = isinstance(line, cst.SimpleStatementSuite)
        several = isinstance(line, cst.SimpleStatementLine) and len(line.body) > 1
        return node if apart or several else self.statement(line)

    def is_unused(self, call: cst.CSTNode) -> bool:
        """Whether nothing is done with what a call gives."""
        return isinstance(self.parents.get(call), cst.Expr)

    def function(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """The innermost function around a node."""
        while node in self.parents:
            node = self.parents[node]
            if isinstance(node, cst.FunctionDef):
                return node
        return None

    def holds(self, outer: cst.CSTNode, inner: cst.CSTNode) -> bool:
        """Whether one node of the file is somewhere inside another."""
        while inner is not outer and inner in self.parents:
            inner = self.parents[inner]
        return inner is outer


_CACHES = frozenset(
    ".git .hg .svn __pycache__ .mypy_cache .pytest_cache .ruff_cache .ipynb_checkpoints .tox .nox"
    " .eggs .idea .vscode .cache node_modules site-packages".split()
)


def is_left_out(path: Path, root: Path) -> bool:
    """Whether a path below ``root`` belongs to version control, a cache or an environment."""
    below = path.relative_to(root).parts
    folders = [root.joinpath(*below[:depth]) for depth in range(1, len(below) + 1)]
    return any(part in _CACHES for part in below) or any(
        (folder / "pyvenv.cfg").is_file() or (folder / "conda-meta").is_dir() for folder in folders
    )


class Project:
    """Finds and reads local modules, each once, as Python would from the entries' folders.

    With a ``folder``, the modules in it may be changed as the entries may. A module that the
    scripts reach by changing ``sys.path`` is found where constants say, or else in the folder
    where only one has its name.
    """

    def __init__(self, *entries: Source, folder: Path | None = None) -> None:
        self.entries = [self._module(entry, "__main__", editable=True) for entry in entries]
        self.entry = self.entries[0]
        self.folder = folder
        self.arguments: tuple[str, ...] = ()  # that the entries are started with, where known
        self.budget = Budget()  # of all that is done to understand it
        self.roots = roots_of((file.path.resolve() for file in self.entries), folder)
        self._names: dict[str, frozenset[str]] = {}  # of what is in a folder
        self._holders: dict[str, list[str]] = {}  # the roots that have a module of a name
        self._absolute: dict[str, ModuleFile | None] = {}
        self._resolved: dict[tuple[str, ModuleFile, int], ModuleFile | None] = {}
        self._folders: dict[str, tuple[Path, bool]] = {}
        self.unreadable: list[DdpifyError] = []  # of modules that are not read, why
        self._files: dict[str, ModuleFile | None] = {
            os.path.realpath(file.path): file for file in self.entries
        }
        self._added: tuple[list[str], list[str]] = ([], [])  # before the roots, and behind them
        for file in self.entries:
            self._search_also(file)

    @property
    def files(self) -> list[ModuleFile]:
        """All files that were read."""
        return [file for file in self._files.values() if file is not None]

    def in_order(self, nodes: Iterable[Node]) -> list[Node]:
        """Nodes in the order of the text, file by file: sets have another in every run."""

        def place(node: cst.CSTNode) -> tuple[str, int, int]:
            owner = self.owner(node)
            return (str(owner.path), *owner.offsets(node)) if owner is not None else ("", 0, 0)

        return sorted(nodes, key=place)

    def owner(self, node: cst.CSTNode) -> ModuleFile | None:
        """The file that a node stands in; None for a node of no file, and for a file's root."""
        return next((file for file in self.files if node in file.parents), None)

    def all_editable(self, nodes: Iterable[cst.CSTNode]) -> bool:
        """Whether there are nodes, and all of them stand in files that may be changed."""
        owners = [self.owner(node) for node in nodes]
        return bool(owners) and all(owner is not None and owner.editable for owner in owners)

    def resolve(self, name: str, importer: ModuleFile, level: int = 0) -> ModuleFile | None:
        """The local file that ``import name`` in ``importer`` reads, if it is a local one."""
        key = (name, importer, level)
        if key not in self._resolved:
            own = not level and is_runtime(name)
            self._resolved[key] = None if own else self._resolve(name, importer, level)
        return self._resolved[key]

    def _resolve(self, name: str, importer: ModuleFile, level: int) -> ModuleFile | None:
        if level:
            base = importer.folder
            for _ in range(level - 1):
                base = os.path.dirname(base)
            return self._find(base, name)
        if name not in self._absolute:
            places = (self._find(root, name) for root in self._holding(name.partition(".")[0]))
            self._absolute[name] = next((found for found in places if found is not None), None)
        found = self._absolute[name]
        if found is None and any(file.changes_search for file in self.files):
            return self._elsewhere(name)
        return found

    def _holding(self, name: str) -> list[str]:
        """The roots that have a module of a name: most names are a library's, which none has."""
        if name not in self._holders:
            self._holders[name] = [x for x in self._searched() if self._holds(x, name)]
        return self._holders[name]

    def _searched(self) -> list[str]:
        """Where modules are looked for, with the folders that files add to ``sys.path``."""
        roots = list(map(str, self.roots))
        first, last = self._added
        return list(dict.fromkeys([*first, *roots, *last]))

    def _search_also(self, file: ModuleFile) -> None:
        """Look for modules in the folders that a file adds, too; what was found stays so."""
        if not file.changes_search:
            return
        started_in = [entry.folder for entry in self.entries]  # or in the project's folder
        started_in += [str(self._root)] if self._root is not None else []
        for known, folders in zip(
            self._added, added_folders.added(file.path, file.structure), strict=True
        ):
            for folder in folders:
                known += [os.path.realpath(os.path.join(start, folder)) for start in started_in]
        self._holders.clear()
        self._absolute = {name: one for name, one in self._absolute.items() if one is not None}
        self._resolved = {name: one for name, one in self._resolved.items() if one is not None}

    def modules_in(self, package: str) -> list[str]:
        """The names of the local modules that a package holds, in order."""
        first, *others = package.split(".")
        folders = [os.path.join(root, first, *others) for root in self._holding(first)]
        held = next((os.listdir(folder) for folder in folders if os.path.isdir(folder)), [])
        return sorted(file[:-3] for file in held if file.endswith(".py") and file[0] != "_")

    def _elsewhere(self, name: str) -> ModuleFile | None:
        """The one module of this name in the project's folder, wherever it stands."""
        top = name.split(".")[0]
        places = self._places.get(top, ())
        if len(places) != 1 or top in sys.stdlib_module_names:
            return None
        return self._find(str(places[0]), name)

    @cached_property
    def _root(self) -> Path | None:
        """The project's folder, links followed."""
        return self.folder.resolve() if self.folder is not None else None

    @cached_property
    def _places(self) -> dict[str, list[Path]]:
        """By a module's first name, the folders of the project that hold one of this name."""
        found: dict[str, list[Path]] = {}
        root = self._root
        for path in sorted(root.rglob("*.py")) if root is not None else ():
            assert root is not None
            if not is_left_out(path, root):
                module = path.parent if path.name == "__init__.py" else path
                found.setdefault(module.stem, []).append(module.parent)
        return found

    def _find(self, base: str, name: str) -> ModuleFile | None:
        if name and not self._holds(base, name.partition(".")[0]):
            return None
        target = os.path.join(base, *name.split(".")) if name else base
        package = os.path.join(target, "__init__.py")
        for candidate in (f"{target}.py", package) if name else (package,):
            if os.path.isfile(candidate):
                return self._read(candidate, name)
        return None

    def _holds(self, folder: str, name: str) -> bool:
        """Whether a folder has a module of a name: many are looked for, few are there."""
        if folder not in self._names:
            try:
                self._names[folder] = frozenset(os.listdir(folder))
            except OSError:
                self._names[folder] = frozenset()
        return name in self._names[folder] or f"{name}.py" in self._names[folder]

    def _read(self, path: str, name: str) -> ModuleFile | None:
        path = real_path(path)
        if path not in self._files and os.path.getsize(path) > LARGEST_MODULE:
            self._files[path] = None  # as unknown as a library
        if path not in self._files:
            folder, file = os.path.split(path)
            shown, editable = self._folder(folder)
            try:
                source = self._load(shown / file)
                if is_vendored(source.text):
                    self._files[path] = None  # ddpify's own runtime, which is known as a library
                    return None
                made = self._module(source, name, editable=editable)
                self._files[path] = made
                self._search_also(made)
            except DdpifyError as error:
                self.unreadable.append(error)
                self._files[path] = None  # as unknown as a library
        return self._files[path]

    def peek(self, path: str) -> ModuleFile:
        """A local file, which does not become one of those that were read.

        Raises:
            DdpifyError: It cannot be read.
        """
        folder, file = os.path.split(path)
        shown, editable = self._folder(folder)
        return self._module(self._load(shown / file), file, editable=editable)

    def _module(self, source: Source, name: str, *, editable: bool) -> ModuleFile:
        return ModuleFile(source, name, editable=editable, parsed=self._parse(source))

    def _load(self, path: Path) -> Source:
        """A module that the scripts import."""
        return read_source(path)

    def _parse(self, source: Source) -> Parsed:
        """The tree of a file, which gives back its bytes."""
        parsed = Parsed(source.tree, source.text)
        source.confirm(lambda: parsed.code)  # the rendering that also tells where nodes stand
        return parsed

    def _folder(self, path: str) -> tuple[Path, bool]:
        """A folder as the user would write it, and whether files in it may be changed."""
        if path not in self._folders:
            self._folders[path] = self._shown(Path(path)), self._is_editable(Path(path))
        return self._folders[path]

    def _is_editable(self, path: Path) -> bool:
        root = self._root
        return root is not None and path.is_relative_to(root) and not is_left_out(path, root)

    def _shown(self, path: Path) -> Path:
        """From the folder that was named, if it is in there."""
        named = self.folder if self.folder is not None else self.entry.path.parent
        root = named.resolve()
        return named / path.relative_to(root) if path.is_relative_to(root) else path
