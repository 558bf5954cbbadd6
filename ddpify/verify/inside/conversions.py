"""``float(x)``, ``int(x)`` and ``"%.3f" % x`` in the script's own files keep what a number was
computed from.

Python makes an exact number of whatever an object's ``__float__`` returns, so that nothing could be
remembered. These are led to functions here when a file is compiled; lines stay as they are.
"""

from __future__ import annotations

import ast
import builtins
import logging
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from typing import Any

import torch

from ddpify.verify.inside.patching import replace

_KINDS = {"float": float, "int": int}
_PERCENT = "__ddpify_percent__"


def install(
    root: str, tracked: Callable[[Any, Any], Any], formatted: Callable[[str, Any], None]
) -> None:
    """Prepare Python for the files in ``root``.

    Args:
        root: The script's folder.
        tracked: Gives a number the origins of another value.
        formatted: Takes each text that was made by ``%``, and the values in it.
    """

    def percent(template: str, values: Any) -> str:
        text: str = template % values
        formatted(text, values)
        return text

    setattr(builtins, _PERCENT, percent)
    _follow_logging(formatted)
    for name, kind in _KINDS.items():
        setattr(builtins, f"__ddpify_{name}__", _conversion(kind, tracked))
    folder, real = root.rstrip("/") + "/", SourceFileLoader.get_code

    def get_code(loader: Any, fullname: str) -> Any:
        path = loader.get_filename(fullname)
        if not path.startswith(folder):
            return real(loader, fullname)
        return compile(followed(loader.get_data(path), path), path, "exec", dont_inherit=True)

    replace(SourceFileLoader, "get_code", get_code)


def _follow_logging(formatted: Callable[[str, Any], None]) -> None:
    """The same for the messages that ``logging`` puts together."""
    real = logging.LogRecord.getMessage

    def message(record: logging.LogRecord) -> str:
        text = real(record)
        if record.args:
            formatted(text, record.args)
        return text

    replace(logging.LogRecord, "getMessage", message)


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
    _Percents().visit(tree)
    return ast.fix_missing_locations(tree)


class _Percents(ast.NodeTransformer):
    """Leads texts that are made by ``%`` to the function for them."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """A literal text on the left."""
        self.generic_visit(node)
        literal = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
        if not (isinstance(node.op, ast.Mod) and literal):
            return node
        name = ast.copy_location(ast.Name(_PERCENT, ast.Load()), node)
        return ast.copy_location(ast.Call(name, [node.left, node.right], []), node)


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
