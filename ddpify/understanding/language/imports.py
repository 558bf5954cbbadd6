"""Import statements: libraries by name, local files by running them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.libraries.object_kinds import canonical
from ddpify.understanding.libraries.runtime_names import qualified
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.syntax import dotted
from ddpify.understanding.values import (
    UNKNOWN,
    Const,
    Instance,
    QualifiedName,
    Tup,
    Value,
    deep_atoms,
    library_value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def plain(run: RunState, node: cst.Import) -> None:
    """``import a.b as c``."""
    for alias in node.names:
        full = dotted(alias.name) or ""
        local = run.project.resolve(full, run.module)
        if alias.asname is not None:
            assert isinstance(alias.asname.name, cst.Name)
            run.bind(alias.asname.name.value, _imported(run, local, full))
        elif "." not in full:
            run.bind(full, _imported(run, local, full))
        else:
            _import_dotted(run, full, local)


def _import_dotted(run: RunState, full: str, local: ModuleFile | None) -> None:
    top = full.split(".")[0]
    package = run.project.resolve(top, run.module)
    if local is None and package is None:
        run.bind(top, library_value(top))
        return
    if local is not None:
        run.module_scope(local)
    run.bind(top, value(run.namespace(package) if package else QualifiedName(top)))


def _imported(run: RunState, local: ModuleFile | None, full: str) -> Value:
    if local is None:
        return library_value(qualified(full))
    return value(run.namespace(local))


def module(run: RunState, full: str) -> Value:
    """The module of that name: of the project, or of a library."""
    return _imported(run, run.project.resolve(full, run.module), full)


def from_module(run: RunState, node: cst.ImportFrom) -> None:
    """``from a import b``."""
    base = (dotted(node.module) if node.module is not None else None) or ""
    level = len(node.relative)
    local = run.project.resolve(base, run.module, level)
    if isinstance(node.names, cst.ImportStar):
        if local is not None:
            run.frame.scope.names.update(_exported(run.module_scope(local).names))
        elif base:
            run.frame.scope.stars.append(qualified(base))
        return
    for alias in node.names:
        name = dotted(alias.name) or ""
        asname = alias.asname.name.value if alias.asname is not None else name  # type: ignore[union-attr]
        run.bind(asname, member(run, local, base, name, level))


def _exported(names: dict[str, Value]) -> dict[str, Value]:
    """The names of a module that a star import binds: those of ``__all__``, or all public ones."""
    held = list(deep_atoms(names.get("__all__", UNKNOWN)))
    listed = {a.value for a in held if isinstance(a, Const) and isinstance(a.value, str)}
    known = listed and all(isinstance(a, (Const, Instance, Tup)) for a in held)
    return {n: one for n, one in names.items() if (n in listed if known else n[0] != "_")}


def member(run: RunState, local: ModuleFile | None, base: str, name: str, level: int) -> Value:
    """What a name of a module stands for: its own, or a module inside of it."""
    if local is not None:
        found = run.module_scope(local).names.get(name)
        if found is not None:
            return found
    joined = f"{base}.{name}" if base else name
    submodule = run.project.resolve(joined, run.module, level)
    if submodule is not None:
        return _imported(run, submodule, joined)
    return UNKNOWN if local is not None or level else library_value(canonical(qualified(joined)))
