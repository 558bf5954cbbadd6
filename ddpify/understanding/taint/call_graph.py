"""The project's own functions that a call runs, and what it gives them."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.understanding.facts import Facts
from ddpify.understanding.libraries import partial_calls
from ddpify.understanding.libraries.distributed import held_forwards
from ddpify.understanding.syntax import dotted, parameters
from ddpify.understanding.taint.scopes import collecting
from ddpify.understanding.values import UNKNOWN, Bound, Class, Function, Instance, Value

_PROPERTIES = ("property", "cached_property")


def called(facts: Facts, node: cst.Call) -> Iterator[Function]:
    """The project's functions that a call runs and whose result it gives."""
    held = facts.values.get(node.func)
    for atom in held.atoms if held is not None else ():
        if isinstance(atom, Function):
            yield atom
        elif isinstance(atom, Bound):
            yield atom.function
        elif isinstance(atom, Instance) and atom.type == partial_calls.TYPE:
            yield from functions_in(atom.arguments[partial_calls.FUNCTION])
        elif isinstance(atom, Instance) and isinstance(atom.type, Class):
            for name in ("forward", "__call__"):
                found: Value | None = atom.type.find(name)
                yield from found.of(Function) if found is not None else ()


def functions_in(held: Value) -> Iterator[Function]:
    """The project's functions and methods that a value may be."""
    yield from held.of(Function)
    yield from (one.function for one in held.of(Bound))


def partials(facts: Facts, node: cst.Call) -> Iterator[Instance]:
    """The objects of ``functools.partial`` that a call may run, with the arguments they keep."""
    for one in facts.values.get(node.func, UNKNOWN).of(Instance):
        if one.type == partial_calls.TYPE:
            yield one


def already_given(held: Value, function: Function) -> int:
    """How many parameters of a function come by themselves where it is called by a value that it
    may be: ``self``, and what ``functools.partial`` has been given before.
    """
    for one in held.of(Instance):
        if one.type == partial_calls.TYPE:
            inner = one.arguments[partial_calls.FUNCTION]
            if function in functions_in(inner):
                kept = sum(1 for name in one.arguments if name.isdecimal())
                return kept + already_given(inner, function)
    return int(any(isinstance(a, (Bound, Instance)) for a in held.atoms))


def wrapped_forwards(facts: Facts, node: cst.Call) -> Iterator[Function]:
    """The forwards that a call of a DDP or FSDP object runs, which are given what it is given."""
    for wrapper in facts.values.get(node.func, UNKNOWN).of(Instance):
        yield from (function for _, function in held_forwards(wrapper))


def read_as(facts: Facts, node: cst.Attribute) -> Iterator[Function]:
    """The properties that an attribute runs and whose result it gives."""
    held = facts.values.get(node.value)
    for atom in held.atoms if held is not None else ():
        if isinstance(atom, Instance) and isinstance(atom.type, Class):
            found = atom.type.find(node.attr.value)
            for one in found.atoms if found is not None else ():
                if isinstance(one, Function) and _is_property(one):
                    yield one


def _is_property(function: Function) -> bool:
    if isinstance(function.node, cst.Lambda):
        return False
    names = (dotted(one.decorator) or "" for one in function.node.decorators)
    return any(name.rsplit(".", 1)[-1] in _PROPERTIES for name in names)


def initialisers(facts: Facts, node: cst.Call) -> Iterator[Function]:
    """The ``__init__`` functions that a call runs."""
    held = facts.values.get(node.func)
    for atom in held.atoms if held is not None else ():
        if isinstance(atom, Class):
            found = atom.find("__init__")
            yield from found.of(Function) if found is not None else ()


def fields(facts: Facts, node: cst.Call) -> Iterator[tuple[Class, str, cst.BaseExpression]]:
    """What a call gives the fields of a data class that it makes."""
    held = facts.values.get(node.func)
    for atom in held.atoms if held is not None else ():
        if not isinstance(atom, Class):
            continue
        names = atom.fields()
        for position, argument in enumerate(node.args if names else ()):
            if argument.star:
                break
            if argument.keyword is not None:
                yield atom, argument.keyword.value, argument.value
            elif position < len(names):
                yield atom, names[position], argument.value


def passed(function: Function, skip: int, call: cst.Call) -> Iterator[tuple[cst.Arg, str]]:
    """The arguments of a call, each with the name of its parameter, where that is known.

    ``skip`` is how many parameters come by themselves, as ``self`` does.
    """
    names = [p.name.value for p in parameters(function.node)]
    more, named = collecting(function.node)
    position = skip
    for argument in call.args:
        if argument.star:
            position = len(names)
        elif argument.keyword is not None:
            known = named is None or argument.keyword.value in names
            yield argument, argument.keyword.value if known else named or ""
        elif position < len(names):
            yield argument, names[position]
            position += 1
        elif more is not None:
            yield argument, more
