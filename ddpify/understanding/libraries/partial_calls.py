"""Functions that have some of their arguments: ``functools.partial(measure, labels=labels)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding.arguments import Keywords, local_data
from ddpify.understanding.values import UNKNOWN, Atom, Bound, Function, Instance, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

TYPE = "functools.partial"
FUNCTION = "function"


def made(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """What ``functools.partial`` gives: a project's function with arguments, or an object.

    The object stands for what a library has, for a class, and for what holds a batch.
    """
    if not args:
        return UNKNOWN
    given = [*args[1:], *kwargs.values()]
    if not given:
        return args[0]
    if any(True for one in given for _ in local_data(one)):
        return value(_holding(run, node, args, kwargs))
    found: list[Atom] = []
    others: list[Atom] = []
    for atom in args[0].atoms:
        if isinstance(atom, Function):
            found.append(_with_arguments(run, node, atom, args[1:], kwargs))
        elif isinstance(atom, Bound):
            function = _with_arguments(run, node, atom.function, args[1:], kwargs)
            found.append(Bound(atom.receiver, function))
        else:
            others.append(atom)
    if others:
        found.append(_holding(run, node, [value(*others), *args[1:]], kwargs))
    return value(*found)


def _with_arguments(
    run: RunState,
    node: cst.BaseExpression,
    function: Function,
    args: list[Value],
    kwargs: Keywords,
) -> Function:
    """The function with these arguments: the same in every pass, so that values compare equal."""
    known = run.completed_in_part.setdefault((node, function), replace(function))
    known.given = (*function.given, *args)
    known.given_by_name = {**function.given_by_name, **kwargs}
    return known


def _holding(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Instance:
    """The object that keeps the arguments; positions are keys, ``"0"`` the first."""
    held = run.instance(node, run.module, TYPE)
    run.give(held, FUNCTION, args[0])
    for name, given in [*((str(i), one) for i, one in enumerate(args[1:])), *kwargs.items()]:
        held.arguments[name] = given
    return held


def completed(
    held: Instance, args: list[Value], kwargs: Keywords
) -> tuple[Value, list[Value], dict[str, Value]]:
    """The function of such an object with the arguments that it keeps and those of a call."""
    kept = {name: one for name, one in held.arguments.items() if name != FUNCTION}
    positions = [kept.pop(str(i)) for i in range(len(kept)) if str(i) in kept]
    return held.arguments[FUNCTION], [*positions, *args], {**kept, **kwargs}
