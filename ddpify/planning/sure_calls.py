"""The calls of a library that a script surely makes, as far as trees alone tell.

A call counts unless a condition around it may be decided by the text. Functions are followed into
local modules, where a name leads to them by imports alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import libcst as cst

from ddpify.errors import DdpifyError
from ddpify.understanding.facts import Site
from ddpify.understanding.libraries.object_kinds import canonical
from ddpify.understanding.project import ModuleFile, Project
from ddpify.understanding.structure import Guard, walk
from ddpify.understanding.syntax import dotted
from ddpify.understanding.text_imports import imported

_DEEPEST = 3  # functions, and modules that only hand on a name
_LITERAL = re.compile(r"\b(\w+)[\"']?\s*(?::\s*\w+\s*)?[=:]\s*(?:True\b|False\b|None\b|-?[\d\"'])")


class _Origin(NamedTuple):
    """What an import binds: dots, and the qualified name without them."""

    level: int
    name: str


class SureCalls:
    """Looks for calls in files of a project; those that entries import are read, but not kept."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._roots = [str(root) for root in project.roots]
        self._files: dict[str, ModuleFile | None] = {}
        self._names: dict[ModuleFile, dict[str, set[_Origin]]] = {}
        self._seen: set[cst.CSTNode] = set()

    def of(self, entry: ModuleFile, prefixes: tuple[str, ...]) -> Iterator[tuple[str, Site]]:
        """The calls of names with one of these prefixes: those that stand in the entry first."""
        calls = [c for c in entry.structure.all(cst.Call) if _surely_runs(entry, c)]
        yield from self._named(entry, calls, prefixes)
        for call in calls:
            yield from self._inside(entry, call, prefixes, _DEEPEST)

    def _named(
        self, file: ModuleFile, calls: list[cst.Call], prefixes: tuple[str, ...]
    ) -> Iterator[tuple[str, Site]]:
        """The calls that are of these names themselves."""
        for call in calls:
            for origin in self._called(file, call):
                name = canonical(origin.name)
                if not origin.level and name.startswith(prefixes):
                    yield name, Site(call, file)

    def _inside(
        self, file: ModuleFile, call: cst.Call, prefixes: tuple[str, ...], depth: int
    ) -> Iterator[tuple[str, Site]]:
        """The calls in the local function that a call is of."""
        for module, function in self._functions(file, call):
            if function in self._seen or not depth:
                continue
            self._seen.add(function)
            below = module.structure.inside(function, cst.Call)
            calls = [c for c in below if _surely_runs(module, c, function)]
            yield from self._named(module, calls, prefixes)
            for one in calls:
                yield from self._inside(module, one, prefixes, depth - 1)

    def _functions(
        self, file: ModuleFile, call: cst.Call
    ) -> Iterator[tuple[ModuleFile, cst.FunctionDef]]:
        if isinstance(call.func, cst.Name) and file not in self._project.entries:
            yield from self._defined(file, call.func.value)
        for origin in self._called(file, call):
            yield from self._found(file, origin, _DEEPEST)

    def _found(
        self, importer: ModuleFile, origin: _Origin, depth: int
    ) -> Iterator[tuple[ModuleFile, cst.FunctionDef]]:
        """The functions of a name, in the module that defines or hands on it."""
        module, _, name = origin.name.rpartition(".")
        folder = os.path.realpath(importer.source.path)
        where = ((origin.level, module, ()),)
        for path in imported(where, folder, self._roots) if module or origin.level else ():
            file = self._file(path)
            if file is None or not depth:
                continue
            yield from self._defined(file, name)
            for further in self._imports(file).get(name, ()):
                yield from self._found(file, further, depth - 1)

    def _defined(self, file: ModuleFile, name: str) -> Iterator[tuple[ModuleFile, cst.FunctionDef]]:
        for one in file.tree.body:
            if isinstance(one, cst.FunctionDef) and one.name.value == name:
                yield file, one

    def _file(self, path: str) -> ModuleFile | None:
        if path not in self._files:
            try:
                self._files[path] = self._project.peek(path)
            except DdpifyError:
                self._files[path] = None
        return self._files[path]

    def _called(self, file: ModuleFile, call: cst.Call) -> Iterator[_Origin]:
        first, _, rest = (dotted(call.func) or "").partition(".")
        for level, name in self._imports(file).get(first, ()):
            yield _Origin(level, f"{name}.{rest}" if rest else name)

    def _imports(self, file: ModuleFile) -> dict[str, set[_Origin]]:
        if file not in self._names:
            self._names[file] = _imported_names(file)
        return self._names[file]


def _imported_names(file: ModuleFile) -> dict[str, set[_Origin]]:
    """What the names that imports alone bind in a file stand for."""
    found: dict[str, set[_Origin]] = {}
    for node in file.structure.all(cst.Import, cst.ImportFrom):
        for bound, origin in _bindings(node):
            found.setdefault(bound, set()).add(origin)
    others = _otherwise_bound(file)
    return {name: origins for name, origins in found.items() if name not in others}


def _otherwise_bound(file: ModuleFile) -> set[str]:
    """The names that a file binds by something else than an import, too."""
    structure = file.structure
    found = {one.name.value for one in structure.all(cst.FunctionDef, cst.ClassDef, cst.Param)}
    for name, nodes in file.parsed.scopes.bound.items():
        if not all(isinstance(structure.parents[node], cst.ImportAlias) for node in nodes):
            found.add(name)
    return found


def _bindings(node: cst.Import | cst.ImportFrom) -> Iterator[tuple[str, _Origin]]:
    """The names that an import binds, with what they are."""
    if isinstance(node.names, cst.ImportStar):
        return
    level, base = 0, ""
    if isinstance(node, cst.ImportFrom):
        level, base = len(node.relative), (dotted(node.module) or "") if node.module else ""
    for alias in node.names:
        full = dotted(alias.name) or ""
        whole = f"{base}.{full}" if base else full
        if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
            yield alias.asname.name.value, _Origin(level, whole)
        elif isinstance(node, cst.ImportFrom):
            yield full, _Origin(level, whole)
        else:
            yield full.partition(".")[0], _Origin(0, full.partition(".")[0])


def _surely_runs(
    file: ModuleFile, call: cst.CSTNode, function: cst.FunctionDef | None = None
) -> bool:
    """Whether no condition around a call, inside the function, may be decided by the text."""
    around: list[cst.CSTNode] = [call]
    for one in file.structure.up(call):
        if one is function:
            break
        if isinstance(one, (cst.FunctionDef, cst.ClassDef, cst.Lambda)):
            if function is not None:
                return False  # what is defined in a module's function is perhaps never called
            around.append(one)
    guards = (guard for one in around for guard in file.structure.guards(one))
    return all(_is_open(file.source.text, guard) for guard in guards)


def _is_open(text: str, guard: Guard) -> bool:
    """Whether a condition asks for something that has no literal for its value in the text."""
    names = [n.value for n in walk(guard.test) if isinstance(n, cst.Name)]
    return bool(names) and _with_literals(text).isdisjoint(names)


@lru_cache(maxsize=64)
def _with_literals(text: str) -> frozenset[str]:
    """The names that have a literal for their value somewhere in a text."""
    return frozenset(_LITERAL.findall(text))
