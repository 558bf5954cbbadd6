"""Modules, classes and functions that the script finds by a name, which may be a setting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.arguments import Keywords
from ddpify.understanding.values import (
    REPLICATED,
    Atom,
    Const,
    Instance,
    Namespace,
    Value,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def import_module(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    """A module by its name, or by any of the names that it may have."""
    given = args[0].atoms if args else ()
    names = [a.value for a in given if isinstance(a, Const) and isinstance(a.value, str)]
    package = _package(node.args[0].value) if isinstance(node, cst.Call) and node.args else ""
    names += [f"{package}.{name}" for name in run.project.modules_in(package)] if package else []
    return join(*(run.module_named(name) for name in names if not name.startswith(".")))


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


def set_attribute(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``setattr(x, name, value)``, also where the name is put together: ``"stage" + str(i)``."""
    if len(args) > 2:
        texts = [a.value for a in args[1].atoms if isinstance(a, Const)]
        known = bool(texts) and all(isinstance(text, str) for text in texts)
        names = texts if known and len(texts) == len(args[1].atoms) else _prefixes(node)
        for owner in args[0].of(Instance):
            for name in names:
                run.put(owner, str(name), args[2])
    return REPLICATED


def attributes_of(node: cst.BaseExpression, owner: Value) -> list[Value]:
    """What ``getattr(x, "stage" + str(i))`` may find: any attribute whose name starts so."""
    starts = [key[:-1] for key in _prefixes(node)]
    return [
        held
        for instance in owner.of(Instance)
        for key, held in (instance.attributes.items() if starts else ())
        if key.startswith(starts[0])
    ]


def _prefixes(call: cst.BaseExpression) -> list[str]:
    """``stage*`` where the second argument puts a name together that starts so."""
    name = call.args[1].value if isinstance(call, cst.Call) and len(call.args) > 1 else None
    text = ""
    if isinstance(name, cst.FormattedString) and name.parts:
        first = name.parts[0]
        text = first.value if isinstance(first, cst.FormattedStringText) else ""
    elif isinstance(name, cst.BinaryOperation):
        shown, percent = name.left, isinstance(name.operator, cst.Modulo)
        while isinstance(shown, cst.BinaryOperation):
            shown = shown.left
        if isinstance(shown, cst.SimpleString):
            text = str(shown.evaluated_value)
            text = text.partition("%")[0] if percent else text
    elif isinstance(name, cst.Call) and isinstance(name.func, cst.Attribute):
        shown = name.func.value
        if name.func.attr.value == "format" and isinstance(shown, cst.SimpleString):
            text = str(shown.evaluated_value).partition("{")[0]
    return [f"{text}*"] if text.isidentifier() else []


def module_globals(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``globals()``: the classes and functions of this module."""
    return value(run.defined_in(node, run.namespace(run.module)))


def variables(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``vars(module)``: its classes and functions; of an object, what it holds of a batch."""
    found: list[Atom] = []
    for atom in args[0].atoms if args else ():
        if isinstance(atom, Namespace):
            found.append(run.defined_in(node, atom))
        elif isinstance(atom, Instance):
            found.extend(run.as_dictionary(node, atom).atoms)
    return value(*found) or REPLICATED
