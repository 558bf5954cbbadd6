"""Modules, classes and functions that the script finds by a name, which may be a setting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.arguments import Keywords, argument_pairs
from ddpify.understanding.batching import persistent_state
from ddpify.understanding.libraries import library_settings, tensor_attributes
from ddpify.understanding.libraries.object_kinds import is_model
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import content, indices_of
from ddpify.understanding.values import (
    ANY_NAME,
    CHANGED,
    REPLICATED,
    Atom,
    Class,
    Const,
    Data,
    Function,
    Instance,
    Namespace,
    Scope,
    Value,
    deep_atoms,
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
    shown = _assigned(run, node.args[0].value) if isinstance(node, cst.Call) and node.args else None
    package, _, start = _beginning(shown).rpartition(".") if shown is not None else ("", "", "")
    modules = run.project.modules_in(package) if package else []
    names += [f"{package}.{name}" for name in modules if name.startswith(start)]
    return join(*(run.module_named(name) for name in names if not name.startswith(".")))


def _assigned(run: RunState, shown: cst.BaseExpression) -> cst.BaseExpression:
    """The expression that a name stands for, where the function sets it once."""
    function = run.module.function(shown) if isinstance(shown, cst.Name) else None
    lines = walk(function.body) if function is not None else ()
    made = [
        line.value
        for line in lines
        if isinstance(line, cst.Assign) and any(_is_named(t, shown) for t in line.targets)
    ]
    return made[0] if len(made) == 1 else shown


def _is_named(target: cst.AssignTarget, shown: cst.BaseExpression) -> bool:
    return target.target.deep_equals(shown)


def _beginning(name: cst.BaseExpression) -> str:
    """``models.`` of ``"models." + x + "_model"``, ``"models.%s" % x`` or ``f"models.{x}"``."""
    first = name
    while isinstance(first, cst.BinaryOperation) and isinstance(first.operator, cst.Add):
        first = first.left
    percent = False
    if isinstance(first, cst.BinaryOperation) and isinstance(first.operator, cst.Modulo):
        first, percent = first.left, True
    if isinstance(first, cst.FormattedString) and first.parts:
        part = first.parts[0]
        text = part.value if isinstance(part, cst.FormattedStringText) else ""
    elif isinstance(first, cst.SimpleString) and first is not name:
        text = str(first.evaluated_value)
        text = text.partition("%")[0] if percent else text
    else:
        return ""
    return text if all(map(str.isidentifier, text.split(".")[:-1])) else ""


def set_attribute(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``setattr(x, name, value)``, also where the name is put together: ``"stage" + str(i)``."""
    if len(args) > 2:
        texts = [a.value for a in args[1].atoms if isinstance(a, Const)]
        known = bool(texts) and all(isinstance(text, str) for text in texts)
        names = texts if known and len(texts) == len(args[1].atoms) else _prefixes(node)
        for name in names:
            holder, _, shown = [given for given, _ in argument_pairs(node, args, {})][:3]
            tensor_attributes.put(run, args[0], str(name), shown, args[2])
            persistent_state.parameter(run, holder, str(name), shown, args[2])
        if not names:
            tensor_attributes.put_any(run, args[0], argument_pairs(node, args, {})[2][0], args[2])
        for made in args[0].of(Class):
            made.scope.names.update({str(name): args[2] for name in names})
        for owner in args[0].of(Instance):
            for name in names:
                library_settings.note(run, node, owner, str(name), args[2])
                run.put(owner, str(name), args[2])
            if not names:
                library_settings.note_any(run, node, owner)
                set_any(run, owner)
                _set_unknown(run, owner, args[2])
    return REPLICATED


def _set_unknown(run: RunState, owner: Instance, new: Value) -> None:
    """Let any attribute of an object be what was computed of a batch."""
    if any(isinstance(one, Data) for one in deep_atoms(new)):
        run.put(owner, ANY_NAME, new)


def set_any(run: RunState, owner: Instance) -> None:
    """Let any setting, or option of the command line, be another than the one that is seen."""
    if owner.type == "argparse.Namespace":
        for name in list(owner.attributes):
            run.put(owner, name, REPLICATED)
    elif not is_model(owner):
        run.put(owner, CHANGED, REPLICATED)


def note_change(run: RunState, variables_of: cst.BaseExpression, owner: Instance) -> None:
    """See that settings are changed by ``vars(x).update(..)`` or ``x.__dict__.update(..)``."""
    if _may_be_changed(run, variables_of):
        library_settings.note_any(run, variables_of, owner)
        set_any(run, owner)


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


def _asked_for(above: cst.CSTNode | None) -> object:
    """The text that a subscript around a dictionary of names has."""
    indices = indices_of(above) if isinstance(above, cst.Subscript) else []
    text = indices[0] if len(indices) == 1 else None
    return content(text) if isinstance(text, cst.SimpleString) else None


def named_in(run: RunState, node: cst.BaseExpression, scope: Scope) -> Instance:
    """The classes, functions and parts of batches that names stand for, as a dictionary.

    Where ``globals()["F"]`` says which is asked for, it holds that one, whatever it is.
    """
    asked = _asked_for(run.module.parents.get(node))
    made = run.instance(node, run.module, "dict")
    for key, held in list(scope.names.items()):
        if key == asked or any(isinstance(a, (Class, Function, Data)) for a in held.atoms):
            run.put(made, f"[{key!r}]", held)
    return made


def module_globals(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``globals()``: what the names of this module stand for."""
    return value(run.defined_in(node, run.namespace(run.module)))


def names_here(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``locals()``: what the names of the function stand for that is in progress."""
    return value(named_in(run, node, run.frame.scope))


def variables(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``vars(module)``: what its names stand for; of an object, what it holds of a batch."""
    if not args:
        return names_here(run, node, args)
    found: list[Atom] = []
    for atom in args[0].atoms:
        if isinstance(atom, Namespace):
            found.append(run.defined_in(node, atom))
        elif isinstance(atom, Instance):
            note_change(run, node, atom)
            found.extend(run.as_dictionary(node, atom).atoms)
    return value(*found) or REPLICATED


_READING = frozenset("copy get items keys values".split())


def _may_be_changed(run: RunState, variables_of: cst.BaseExpression) -> bool:
    """Whether ``vars(x)`` is more than read, or given to something to read."""
    above = run.module.parents.get(variables_of)
    called = isinstance(above, cst.Attribute) and above.attr.value in _READING
    return not (called or isinstance(above, (cst.Arg, cst.For, cst.CompFor)))
