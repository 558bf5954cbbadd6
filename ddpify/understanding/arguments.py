"""The arguments of a call, beside the expressions that give them."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from ddpify.understanding.frames import Frame
from ddpify.understanding.values import Data, Value, deep_atoms

Keywords = dict[str, Value]


def argument_pairs(
    node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> list[tuple[cst.BaseExpression, Value]]:
    """Each argument with the expression that gives it, where the call shows one."""
    shown = node.args if isinstance(node, cst.Call) else ()
    positional = [a.value for a in shown if a.keyword is None and not a.star]
    named = {a.keyword.value: a.value for a in shown if a.keyword is not None}
    pairs = [(positional[i] if i < len(positional) else node, a) for i, a in enumerate(args)]
    return pairs + [(named.get(k, node), v) for k, v in kwargs.items()]


def local_data(one: Value) -> Iterable[Data]:
    """What in a value or in its containers differs from rank to rank."""
    return (a for a in deep_atoms(one) if isinstance(a, Data) and a.placement.local)


def argument_of(frame: Frame, name: str) -> cst.BaseExpression | None:
    """What the call in progress shows for a parameter; None where it shows nothing."""
    call = frame.call.node if frame.call is not None else None
    if not isinstance(call, cst.Call) or not isinstance(frame.runs, cst.FunctionDef):
        return None
    named = next((a for a in call.args if a.keyword is not None and a.keyword.value == name), None)
    if named is not None:
        return named.value
    parameters = frame.runs.params
    names = [p.name.value for p in (*parameters.posonly_params, *parameters.params)]
    place = names.index(name) - (frame.receiver is not None) if name in names else -1
    shown = [a for a in call.args if a.keyword is None]
    plain = not any(a.star for a in shown[: place + 1])
    return shown[place].value if 0 <= place < len(shown) and plain else None
