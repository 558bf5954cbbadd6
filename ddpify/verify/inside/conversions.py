"""``float(x)`` and ``int(x)`` in the script's own files keep what a number was computed from.

Python makes an exact float of whatever an object's ``__float__`` returns, so that nothing could be
remembered. The calls are led to functions here when a file is compiled; lines stay as they are.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from typing import Any

import torch

from ddpify.verify.inside.patching import replace

_KINDS = {"float": float, "int": int}


def install(root: str, tracked: Callable[[Any, Any], Any]) -> None:
    """Prepare Python for the files in ``root``.

    Args:
        root: The script's folder.
        tracked: Gives a number the origins of another value.
    """
    for name, kind in _KINDS.items():
        setattr(builtins, f"__ddpify_{name}__", _conversion(kind, tracked))
    folder, real = root.rstrip("/") + "/", SourceFileLoader.get_code

    def get_code(loader: Any, fullname: str) -> Any:
        path = loader.get_filename(fullname)
        if not path.startswith(folder):
            return real(loader, fullname)
        return compile(followed(loader.get_data(path), path), path, "exec", dont_inherit=True)

    replace(SourceFileLoader, "get_code", get_code)


def followed(source: bytes, path: str) -> ast.Module:
    """The syntax tree of a file, with its conversions led to those that remember.

    Raises:
        SyntaxError: ``source`` is no Python.
    """
    tree = ast.parse(source, path)
    own = {name for name in _KINDS if not _is_bound(tree, name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            plain = len(node.args) == 1 and not isinstance(node.args[0], ast.Starred)
            if node.func.id in own and plain and not node.keywords:
                node.func.id = f"__ddpify_{node.func.id}__"
    return tree


def _is_bound(tree: ast.Module, name: str) -> bool:
    """Whether a file gives ``name`` a meaning of its own, anywhere."""
    for node in ast.walk(tree):
        stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name
        given = isinstance(node, ast.arg) and node.arg == name
        made = isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name
        taken = isinstance(node, ast.alias) and (node.asname or node.name) in (name, "*")
        if stored or given or made or taken:
            return True
    return False


def _conversion(kind: Any, tracked: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        result = kind(value)
        if isinstance(value, str) or torch.compiler.is_compiling():
            return result
        return tracked(result, value)

    return convert
