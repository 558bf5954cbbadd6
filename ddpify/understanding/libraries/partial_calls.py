"""Functions that have some of their arguments: ``functools.partial(measure, labels=labels)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.language.arguments import Keywords, local_data
from ddpify.understanding.values import UNKNOWN, Bound, Class, Function, Instance, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.interpreter import Interpreter

TYPE = "functools.partial"
_FUNCTION = "function"


def made(run: Interpreter, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """What ``functools.partial`` gives: an object where it holds a batch, else the function."""
    if not args:
        return UNKNOWN
    if any(True for one in (*args[1:], *kwargs.values()) for _ in local_data(one)):
        return value(_holding(run, node, args, kwargs))
    for atom in args[0].atoms:
        whole = atom.function if isinstance(atom, Bound) else atom
        if isinstance(whole, (Function, Class)):
            run.bound_in_part.add(whole.node)
    return args[0]


def _holding(
    run: Interpreter, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Instance:
    """The object that keeps the arguments; positions are keys, ``"0"`` the first."""
    held = run.instance(node, run.module, TYPE)
    run.give(held, _FUNCTION, args[0])
    for name, given in [*((str(i), one) for i, one in enumerate(args[1:])), *kwargs.items()]:
        held.arguments[name] = given
    return held


def completed(
    held: Instance, args: list[Value], kwargs: Keywords
) -> tuple[Value, list[Value], dict[str, Value]]:
    """The function of such an object with the arguments that it keeps and those of a call."""
    kept = {name: one for name, one in held.arguments.items() if name != _FUNCTION}
    positions = [kept.pop(str(i)) for i in range(len(kept)) if str(i) in kept]
    return held.arguments[_FUNCTION], [*positions, *args], {**kept, **kwargs}
