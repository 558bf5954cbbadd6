"""Which of several callables a call may mean: those that take the arguments that it gives.

A name that is a setting may stand for any function or class of a module, as in
``globals()[args.model]()``. Most of them could not be called so.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import libcst as cst

from ddpify.understanding.values import Atom, Bound, Class, Function, Value

_KEEPING = {"staticmethod", "classmethod"}  # decorators that leave the parameters as they are


def fitting(
    node: cst.BaseExpression,
    callables: Sequence[Atom],
    args: Sequence[Value],
    kwargs: Collection[str],
) -> Sequence[Atom]:
    """Of several callables, those that take these arguments; all where none or any may."""
    if len(callables) < 2 or not _shows_all(node, len(args) + len(kwargs)):
        return callables
    return [one for one in callables if _takes(one, len(args), kwargs)] or callables


def fails(node: cst.CSTNode, callables: Collection[Atom]) -> bool:
    """Whether a call surely raises TypeError: none of what it may run takes its arguments."""
    if not isinstance(node, cst.Call) or any(argument.star for argument in node.args):
        return False
    named = {one.keyword.value for one in node.args if one.keyword is not None}
    placed = len(node.args) - len(named)
    return bool(callables) and not any(_takes(one, placed, named) for one in callables)


def _shows_all(node: cst.BaseExpression, count: int) -> bool:
    """Whether a call shows its arguments one by one."""
    if not isinstance(node, cst.Call) or len(node.args) != count:
        return False
    return not any(argument.star for argument in node.args)


def _takes(one: Atom, count: int, named: Collection[str]) -> bool:
    if isinstance(one, Function):
        return _binds(one, count, named)
    if isinstance(one, Bound):
        return _binds(one.function, count + 1, named)
    if not isinstance(one, Class):
        return True
    initialiser = one.find("__init__")
    made = list(initialiser.of(Function)) if initialiser is not None else []
    return not made or any(_binds(f, count + 1, named) for f in made)


def _binds(function: Function, count: int, named: Collection[str]) -> bool:
    """Whether a function can be called with so many arguments, and with others by these names."""
    if _is_changed(function.node):
        return True
    count, named = count + len(function.given), {*named, *function.given_by_name}
    parameters = function.node.params
    placed = [*parameters.posonly_params, *parameters.params]
    left = [*placed[count:], *parameters.kwonly_params]
    names = {parameter.name.value for parameter in left}
    missing = any(p.default is None and p.name.value not in named for p in left)
    many = count > len(placed) and not isinstance(parameters.star_arg, cst.Param)
    strange = not named <= names and parameters.star_kwarg is None
    return not (missing or many or strange)


def _is_changed(node: cst.FunctionDef | cst.Lambda) -> bool:
    """Whether decorators may have given a function other parameters."""
    decorators = node.decorators if isinstance(node, cst.FunctionDef) else ()
    return any(
        not isinstance(d.decorator, cst.Name) or d.decorator.value not in _KEEPING
        for d in decorators
    )
