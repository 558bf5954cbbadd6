"""Comparisons whose truth a call tells: of what it passes for a parameter, with literals.

Other names are settings that may change.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import libcst as cst

from ddpify.understanding.values import Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_EQUALITY: dict[type, Callable[[Any, Any], bool]] = {
    cst.Equal: operator.eq,
    cst.NotEqual: operator.ne,
}
_ORDER: dict[type, Callable[[Any, Any], bool]] = {
    cst.LessThan: operator.lt,
    cst.LessThanEqual: operator.le,
    cst.GreaterThan: operator.gt,
    cst.GreaterThanEqual: operator.ge,
}
_IDENTITY: dict[type, Callable[[Any, Any], bool]] = {
    cst.Is: operator.is_,
    cst.IsNot: operator.is_not,
}
_MEMBERSHIP: dict[type, Callable[[Any, Any], bool]] = {
    cst.In: lambda one, held: one in held,
    cst.NotIn: lambda one, held: one not in held,
}
_LITERALS = (cst.SimpleString, cst.Integer)
_DISPLAYS = (cst.Tuple, cst.List, cst.Set)


def told(run: RunState, node: cst.Comparison, values: list[Value]) -> bool | None:
    """The truth of ``kind == "a"`` and the like; None where no call tells it."""
    if len(values) != 2:
        return None
    sides = (node.left, node.comparisons[0].comparator)
    passed = [_is_passed(run, side) for side in sides]
    if not passed[0] and not (passed[1] and _is_literal(node.left)):
        return None
    left, right = values[0].constant(), _held(run, sides[1], values[1])
    if left is ... or right is ... or not isinstance(left, (str, int, type(None))):
        return None
    return _compared(type(node.comparisons[0].operator), left, right)


def _is_passed(run: RunState, shown: cst.BaseExpression) -> bool:
    """Whether this is a parameter whose value comes from the call in progress."""
    return isinstance(shown, cst.Name) and shown.value in run.frame.scope.passed


def _is_literal(shown: cst.BaseExpression) -> bool:
    known = isinstance(shown, cst.Name) and shown.value in ("True", "False", "None")
    return known or isinstance(shown, _LITERALS)


def _held(run: RunState, shown: cst.BaseExpression, known: Value) -> Any:
    """A constant, or all of them that a display holds; Ellipsis where not all are known."""
    if not isinstance(shown, _DISPLAYS):
        return known.constant()
    items = [run.seen(one.value).constant() for one in shown.elements]
    return ... if ... in items else tuple(items)


def _compared(by: type, left: Any, right: Any) -> bool | None:
    if by in _EQUALITY:
        return _EQUALITY[by](left, right)
    if by in _IDENTITY:
        return _IDENTITY[by](left, right) if isinstance(right, (bool, type(None))) else None
    if by in _ORDER and isinstance(left, int) and isinstance(right, (int, float)):
        return _ORDER[by](left, right)
    texts = isinstance(left, str) and isinstance(right, str)
    if by in _MEMBERSHIP and (texts or isinstance(right, tuple)):
        return _MEMBERSHIP[by](left, right)
    return None
