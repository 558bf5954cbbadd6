"""Whether conditions hold of which some parts are not known, as in Kleene's three-valued logic."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import libcst as cst

COMPARING: dict[type[cst.BaseCompOp], Callable[[Any, Any], object]] = {
    cst.GreaterThan: operator.gt,
    cst.GreaterThanEqual: operator.ge,
    cst.LessThan: operator.lt,
    cst.LessThanEqual: operator.le,
    cst.Equal: operator.eq,
    cst.NotEqual: operator.ne,
}


def holds(
    test: cst.BaseExpression, part: Callable[[cst.BaseExpression], bool | None]
) -> bool | None:
    """Whether a test holds, by the answers of what ``not``, ``and`` and ``or`` join.

    Args:
        test: A condition.
        part: Whether an expression holds that none of these joins; None where that is not known.
    """
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        inner = holds(test.expression, part)
        return None if inner is None else not inner
    if isinstance(test, cst.BooleanOperation):
        sides = {holds(test.left, part), holds(test.right, part)}
        decisive = isinstance(test.operator, cst.Or)  # the answer of one side that is enough
        if decisive in sides:
            return decisive
        return None if None in sides else not decisive
    return part(test)
