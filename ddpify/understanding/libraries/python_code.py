"""Python's own functions that look up or run code: ``getattr``, ``eval``, ``super``, ``type``."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arguments import argument_at, local_data
from ddpify.understanding.arithmetic import across_samples, tensor_pairs
from ddpify.understanding.forms import Layout
from ddpify.understanding.libraries import dotted_names, lookup_by_name
from ddpify.understanding.values import (
    REPLICATED,
    UNKNOWN,
    Class,
    Const,
    Data,
    Instance,
    Namespace,
    QualifiedName,
    Super,
    Value,
    deep_atoms,
    join,
    library_value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


_A_NAME = re.compile(r"[^\W\d]\w*")
UNREAD_FUNCTION = "eval.function"  # that a text makes


def _super(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    names = run.frame.scope.names
    first = next(iter(names.values()), UNKNOWN)
    for atom in first.of(Instance, Class):
        if isinstance(atom, Class) or isinstance(atom.type, Class):
            return value(Super(atom))
    return UNKNOWN


_OF_FUNCTIONS = frozenset(
    "torch torch.nn.functional torch.linalg torch.fft torch.special numpy numpy.linalg".split()
)


def _getattr(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    given = args[1].atoms if len(args) > 1 else ()
    names = [a.value for a in given if isinstance(a, Const) and isinstance(a.value, str)]
    found = [run.attribute_of(node, a, n) for a in args[0].atoms for n in names]
    if not names or len(names) < len(given):
        run.demand(argument_at(node, 0), args[0], uses.A_STATISTIC)  # it may be any method
        # A setting: any class or function of a module
        modules = [a for a in args[0].atoms if isinstance(a, Namespace)]
        found += [run.defined_in(node, module).elements for module in modules]
        found += lookup_by_name.attributes_of(node, args[0])
        if any(one.name in _OF_FUNCTIONS for one in args[0].of(QualifiedName)):
            found.append(library_value(UNREAD_FUNCTION))
    return join(*found, *args[2:]) if found else UNKNOWN


def _exec(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``exec(text)`` runs what ddpify cannot read, which may set names of the module."""
    texts = [a.value for a in args[0].atoms if isinstance(a, Const)] if args else []
    for place, names in enumerate(args[1:], 1):
        run.demand_held(argument_at(node, place), names, uses.UNREADABLE_CODE)
    made = _of_text(run, node, texts if len(args) == 1 else [])
    if made and run.frame.scope.kind == "module":
        for name in {name for text in texts for name in _set_by(text)}:
            run.bind(name, made)
    return REPLICATED


def _set_by(text: object) -> set[str]:
    """The names that code in a text sets."""
    try:
        tree = ast.parse(text) if isinstance(text, str) else None
    except SyntaxError:
        tree = None
    names = (one for one in ast.walk(tree) if isinstance(one, ast.Name)) if tree else ()
    return {one.id for one in names if isinstance(one.ctx, ast.Store)}


def _compile(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``compile(text, ..)``, which is as good as its text."""
    return args[0] if args else UNKNOWN


def _of_text(run: RunState, node: cst.BaseExpression, texts: Sequence[object]) -> Value:
    """What code in a text gives, which gets all samples of the rows that it names."""
    names = {name for text in texts if isinstance(text, str) for name in _A_NAME.findall(text)}
    held = [run.lookup(name) for name in sorted(names)]
    for data in (data for one in held for data in local_data(one)):
        run.demand(node, value(replace(data, form=Layout.PACKED)), uses.UNREADABLE_CODE)
    tensor_pairs.note_used_unseen(run, node, held)
    known = [a for one in held for a in deep_atoms(one) if isinstance(a, Data)]
    whole = [a for a in known if a.form is Layout.GATHERED]
    reduced = [a for a in known if a.reduced]
    return across_samples.perhaps_rows("eval", value(*(whole or reduced)[:1]))


def _eval(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``eval(name)``: the object of that name, as far as the name is known; else unread code."""
    given = args[0].atoms if args else ()
    texts = [a.value for a in given if isinstance(a, Const) and isinstance(a.value, str)]
    found = join(*(run.lookup(text) for text in texts if text.isidentifier()))
    written = bool(texts) and any("lambda" in text for text in texts)
    if not found and not written:
        return _of_text(run, node, texts)
    return found or (library_value(UNREAD_FUNCTION) if written else UNKNOWN)


def _type(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``type(x)``; a class that ``type(name, bases, body)`` makes is not known."""
    if len(args) < 3:
        return UNKNOWN if any(one.data for one in args) else REPLICATED
    for place, one in enumerate(args):
        run.demand_held(argument_at(node, place), one, "type()")
    return UNKNOWN


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "super": _super,
    "getattr": _getattr,
    "eval": _eval,
    "exec": _exec,
    "compile": _compile,
    "__import__": dotted_names.module_of,
    "type": _type,
}
