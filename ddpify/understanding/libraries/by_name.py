"""Modules, classes and functions that the script finds by a name, which may be a setting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.language import attributes, imports
from ddpify.understanding.language.arguments import Keywords
from ddpify.understanding.values import REPLICATED, Const, Namespace, Value, join, value

if TYPE_CHECKING:
    from ddpify.understanding.interpreter import Interpreter


def import_module(
    run: Interpreter, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    """A module by its name, or by any of the names that it may have."""
    given = args[0].atoms if args else ()
    names = [a.value for a in given if isinstance(a, Const) and isinstance(a.value, str)]
    package = _package(node.args[0].value) if isinstance(node, cst.Call) and node.args else ""
    names += [f"{package}.{name}" for name in run.project.modules_in(package)] if package else []
    return join(*(imports.module(run, name) for name in names if not name.startswith(".")))


def _package(name: cst.BaseExpression) -> str:
    """``models`` of ``"models." + name``, of ``"models.%s" % name`` or of ``f"models.{name}"``."""
    if isinstance(name, cst.FormattedString) and len(name.parts) == 2:
        first = name.parts[0]
        text = first.value if isinstance(first, cst.FormattedStringText) else ""
    elif isinstance(name, cst.BinaryOperation) and isinstance(name.left, cst.SimpleString):
        text = str(name.left.evaluated_value)
        text = text.removesuffix("%s") if isinstance(name.operator, cst.Modulo) else text
    else:
        return ""
    parts = text.split(".")
    return ".".join(parts[:-1]) if not parts[-1] and all(map(str.isidentifier, parts[:-1])) else ""


def module_globals(run: Interpreter, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``globals()``: the classes and functions of this module."""
    return value(attributes.defined(run, node, run.namespace(run.module)))


def variables(run: Interpreter, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``vars(module)``: the classes and functions of a module."""
    modules = [a for a in args[0].atoms if isinstance(a, Namespace)] if args else []
    return value(*(attributes.defined(run, node, one) for one in modules)) or REPLICATED
