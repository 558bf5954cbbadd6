"""What a text that is shown is put together from."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

_TEXTS = (cst.SimpleString, cst.ConcatenatedString, cst.FormattedString)


def displayed(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The values in a display, in an f-string, in ``text % values``, in ``text.format(values)``
    and in texts that are added up.

    Each is judged by itself: that one of them was reduced says nothing about the others.
    """
    if isinstance(node, cst.FormattedString):
        for part in node.parts:
            if isinstance(part, cst.FormattedStringExpression):
                yield part.expression
    elif isinstance(node, cst.ConcatenatedString):
        yield from displayed(node.left)
        yield from displayed(node.right)
    elif _joins_texts(node):
        yield from displayed(cst.ensure_type(node, cst.BinaryOperation).left)
        yield from displayed(cst.ensure_type(node, cst.BinaryOperation).right)
    elif isinstance(node, cst.BinaryOperation) and isinstance(node.left, _TEXTS):
        shown = node.right
        if isinstance(shown, cst.Tuple):
            yield from (element.value for element in shown.elements)
        else:
            yield shown
    elif (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and isinstance(node.func.value, _TEXTS)
    ):
        for argument in node.args:
            yield from displayed(argument.value)
    elif isinstance(node, (cst.Dict, cst.List, cst.Tuple)):
        for element in node.elements:
            yield from displayed(element.value)
    else:
        yield node


def _joins_texts(node: cst.BaseExpression) -> bool:
    """``"loss: " + str(loss)``, however often."""
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Add):
        return False
    sides = (node.left, node.right)
    return any(isinstance(one, _TEXTS) or _joins_texts(one) for one in sides)
