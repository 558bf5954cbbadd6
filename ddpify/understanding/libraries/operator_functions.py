"""Functions of ``operator``, which compute what Python's operators of the same names do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.arguments import Keywords, argument_pairs
from ddpify.understanding.arithmetic import row_writes, tensor_pairs
from ddpify.understanding.libraries import made_callables, opaque
from ddpify.understanding.operators.in_place import OPERATORS
from ddpify.understanding.values import REPLICATED, Instance, Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_BINARY = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "matmul": "@",
}  # fmt: skip
_CHANGING = ("iconcat", *(name.strip("_") for name in OPERATORS))


def _binary(operator: str) -> Callable[..., Value]:
    def computed(
        run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
    ) -> Value:
        if len(args) != 2 or any(True for one in args for _ in one.of(Instance)):
            return opaque.foreign(run, node, "operator", args, kwargs)
        left, right = argument_pairs(node, args, {})
        return tensor_pairs.binary(run, node, operator, left, right)

    return computed


def _changed(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """``operator.iadd(items, more)``: what takes more, or others, has not a rank's rows alone."""
    shown = argument_pairs(node, args, kwargs)
    for data in shown[0][1].data if shown else ():
        row_writes.write_into_all(run, shown[0][0], data)
    for expression, one in shown:
        run.demand_held(expression, one, "a function of operator")
    return args[0] if args else REPLICATED


def _item(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """``operator.getitem(x, i)``: of rows, those of all ranks."""
    return made_callables.of_all(run, node, "operator.getitem", args, kwargs)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    **{f"operator.{name}": _binary(sign) for name, sign in _BINARY.items()},
    **{f"operator.{name}": _changed for name in _CHANGING},
    "operator.getitem": _item,
}
