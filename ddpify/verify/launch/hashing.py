"""Whether a script may depend on the hashes of strings, which differ from process to process."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

MAX_FILES = 200
_NAMES = frozenset({"set", "frozenset", "hash"})


def uses_hashes(folder: Path, script: Path) -> bool:
    """Whether ``script``, or a module beside or below it in ``folder``, makes sets or hashes."""
    modules = sorted(_modules(script.parent)) if folder in script.parents else [script]
    return any(map(_file_uses_hashes, [script, *modules[:MAX_FILES]]))


def _modules(folder: Path) -> Iterator[Path]:
    """All modules in ``folder``; other programs may remove folders of it meanwhile."""
    for place, _, names in os.walk(folder):
        yield from (Path(place, name) for name in names if name.endswith(".py"))


def _file_uses_hashes(path: Path) -> bool:
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return False
    return any(map(_is_hashing, ast.walk(tree)))


def _is_hashing(node: ast.AST) -> bool:
    if isinstance(node, (ast.Set, ast.SetComp)):
        return True
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return called and node.func.id in _NAMES  # type: ignore[attr-defined]
