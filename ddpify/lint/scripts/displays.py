"""What a text that is shown is put together from."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

_TEXTS = (cst.SimpleString, cst.ConcatenatedString, cst.FormattedString)


def displayed(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The values in a display, in an f-string, in ``text % values`` and in ``text.format(values)``.

    Each is judged by itself: that one of them was reduced says nothing about the others.
    """
    if isinstance(node, cst.FormattedString):
        for part in node.parts:
            if isinstance(part, cst.FormattedStringExpression):
                yield part.expression
    elif isinstance(node, cst.ConcatenatedString):
        yield from displayed(node.left)
        yield from displayed(node.right)
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
        yield from (argument.value for argument in node.args)
    elif isinstance(node, (cst.Dict, cst.List, cst.Tuple)):
        for element in node.elements:
            yield from displayed(element.value)
    else:
        yield node
