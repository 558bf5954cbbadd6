"""Entries that import from the package they are in: which folder they must be started from."""

from __future__ import annotations

import os
from pathlib import Path

import libcst as cst

from ddpify.errors import DdpifyError, ExitCode
from ddpify.understanding.project import ModuleFile


def top(folder: Path, entry: Path, levels: int) -> Path:
    """The folder that holds an entry's package, relative to the project or, at most, itself.

    ``levels`` are the dots of the entry's imports: so many folders are packages, whatever is in
    them, and so is each above with an ``__init__.py``.
    """
    above, depth = entry.parent, 0
    while above != Path() and (depth < levels or (folder / above / "__init__.py").is_file()):
        above, depth = above.parent, depth + 1
    return above


def started_from(script: Path, levels: int) -> tuple[Path, str]:
    """The folder above a script's packages, and its name as a module there."""
    root = script.parents[min(levels, len(script.parents) - 1)]
    while (root / "__init__.py").is_file() and root != root.parent:
        root = root.parent
    return root, ".".join(script.relative_to(root).with_suffix("").parts)


def levels(file: ModuleFile) -> int:
    """The most dots of an import: how many packages a script is in, at least."""
    return max(map(_dots, file.structure.all(cst.ImportFrom)), default=0)


def check_package(folder: Path, entry: Path, file: ModuleFile) -> None:
    """Refuse a folder that is itself a part of the package that an entry imports from.

    Raises:
        DdpifyError: With this folder alone, elsewhere, the entry would not find its package.
    """
    wanted = levels(file)
    missing = wanted - len(entry.parent.parts)
    if missing <= 0:
        return
    node = next(n for n in file.structure.all(cst.ImportFrom) if _dots(n) == wanted)
    path = (folder / entry.parent).resolve() / entry.name
    root, name = started_from(path, wanted)
    raise DdpifyError(
        "it imports from a package of which the folder is only a part, and so is run from above it"
        f" (python -m {name})",
        path=file.path,
        line=file.line(node),
        remedy=f"convert the folder above: ddpify convert {os.path.relpath(root)} -o OUT"
        f" --entry {path.relative_to(root)}",
        exit_code=ExitCode.USAGE,
    )


def _dots(node: cst.CSTNode) -> int:
    return len(node.relative) if isinstance(node, cst.ImportFrom) else 0
