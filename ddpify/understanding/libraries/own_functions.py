"""Functions with a backward of the script's own, as ``Clamp.apply(x)`` calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.language.arguments import Keywords, local_data
from ddpify.understanding.libraries import opaque
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import UNKNOWN, Class, Function, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.interpreter import Interpreter


def apply(
    run: Interpreter, node: cst.BaseExpression, made: Class, args: list[Value], kwargs: Keywords
) -> Value:
    """``Clamp.apply(x, low)``: what it gives is not looked into, but what it does with rows is."""
    known = run.facts.applied.setdefault(made.node, set())
    rows = {number for number, one in enumerate(args) if _is_rows(one)}
    known.update(rows)
    if rows and run.frames_forward():
        context = [] if made.find("setup_context") else [UNKNOWN]
        for function in (made.find("forward") or UNKNOWN).of(Function):
            run.call(node, value(function), [*context, *args], {})
    return opaque.call_unknown(run, node, args, kwargs)


def _is_rows(one: Value) -> bool:
    return any(data.placement is Placement.SHARD for data in local_data(one))
