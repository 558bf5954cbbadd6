"""The project's own functions that a call runs, and what it gives them."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.understanding.facts import Facts
from ddpify.understanding.labels.scopes import parameters
from ddpify.understanding.values import Bound, Class, Function, Instance, Value


def called(facts: Facts, node: cst.Call) -> Iterator[Function]:
    """The project's functions that a call runs and whose result it gives."""
    held = facts.values.get(node.func)
    for atom in held.atoms if held is not None else ():
        if isinstance(atom, Function):
            yield atom
        elif isinstance(atom, Bound):
            yield atom.function
        elif isinstance(atom, Instance) and isinstance(atom.type, Class):
            for name in ("forward", "__call__"):
                found: Value | None = atom.type.find(name)
                yield from found.of(Function) if found is not None else ()  # type: ignore[misc]


def initialisers(facts: Facts, node: cst.Call) -> Iterator[Function]:
    """The ``__init__`` functions that a call runs."""
    held = facts.values.get(node.func)
    for atom in held.atoms if held is not None else ():
        if isinstance(atom, Class):
            found = atom.find("__init__")
            yield from found.of(Function) if found is not None else ()  # type: ignore[misc]


def passed(function: Function, skip: int, call: cst.Call) -> Iterator[tuple[cst.Arg, str]]:
    """The arguments of a call, each with the name of its parameter, where that is known.

    ``skip`` is how many parameters come by themselves, as ``self`` does.
    """
    names = [p.name.value for p in parameters(function.node)]
    position = skip
    for argument in call.args:
        if argument.star:
            position = len(names)
        elif argument.keyword is not None:
            yield argument, argument.keyword.value
        elif position < len(names):
            yield argument, names[position]
            position += 1
