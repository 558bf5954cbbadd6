"""Bundles the runtime helper into one file, for clusters on which ddpify is not installed."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from ddpify import __version__
from ddpify.understanding.libraries.runtime_names import WRITTEN

VENDORED_NAME = "ddpify_runtime.py"
_PACKAGE = "ddpify.runtime"
_HEADER = f'''"""The runtime helper of ddpify {__version__}, in one file; it needs torch alone.

{WRITTEN}: change it in ddpify, not here.
"""
'''


def bundle() -> str:
    """The source of all modules of ``ddpify.runtime`` as one module with the same names."""
    folder = Path(__file__).parent / "runtime"
    names = _in_order(folder)
    imports: dict[str, None] = {}
    bodies = []
    for name in names:
        found, body = _split((folder / f"{name}.py").read_text(encoding="utf-8"))
        imports |= dict.fromkeys(found)
        bodies.append(body)
    future = [line for line in imports if line.startswith("from __future__")]
    others = sorted(line for line in imports if line not in future)
    head = _formatted("\n".join([_HEADER, *future, *others]))
    return f"{head}\n" + "\n\n\n".join([*bodies, _formatted(_exports())])


def _in_order(folder: Path) -> list[str]:
    """Module names, each after those that it imports."""
    needs = {p.stem: _needed(p) for p in sorted(folder.glob("*.py")) if p.stem != "__init__"}
    order: list[str] = []

    @cache
    def add(name: str) -> None:
        for other in sorted(needs[name]):
            add(other)
        order.append(name)

    for name in needs:
        add(name)
    return order


def _needed(path: Path) -> set[str]:
    """The modules of the package that a module imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    modules = [node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {name.rsplit(".", 1)[-1] for name in modules if name.startswith(f"{_PACKAGE}.")}


def _split(text: str) -> tuple[list[str], str]:
    """A module's imports from elsewhere, and its code without docstring and imports."""
    tree = ast.parse(text)
    lines = text.splitlines()
    imports: list[str] = []
    for node in tree.body:
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            if not _internal(node):
                imports.append(ast.unparse(node))
        elif not (docstring and node is tree.body[0]):
            continue
        for number in range(node.lineno - 1, node.end_lineno or node.lineno):
            lines[number] = ""
    return imports, "\n".join(lines).strip("\n")


def _internal(node: ast.Import | ast.ImportFrom) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_PACKAGE)


def _exports() -> str:
    text = (Path(__file__).parent / "runtime" / "__init__.py").read_text(encoding="utf-8")
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.unparse(node)
    raise AssertionError("ddpify.runtime lists its names in __all__")


def _formatted(text: str) -> str:
    """What is put together here in Black's form, which the modules have already."""
    import black

    return black.format_str(text, mode=black.Mode(line_length=100))
