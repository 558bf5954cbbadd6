"""Tensors of a single number, by the call that makes them: they have no rows to be split."""

from __future__ import annotations

import libcst as cst

from ddpify.understanding.syntax import argument, dotted

_BY_SIZE = frozenset("zeros ones full empty rand randn randint normal uniform".split())
_BY_VALUE = frozenset("tensor as_tensor array asarray".split())
_NUMBERS = frozenset("float int len round max min sum abs".split())
_OF_NUMBERS = ("math", "statistics")


def is_one(node: cst.CSTNode) -> bool:
    """Whether this surely makes one number, as ``torch.zeros(())`` and ``torch.tensor(0.5)`` do."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    name = node.func.attr.value
    if name in _BY_SIZE:
        size = argument(node, "size") or argument(node, "shape")
        sizes = [size] if size is not None else node.args[:1]
        return any(_is_empty(one.value) for one in sizes)
    given = node.args[0].value if name in _BY_VALUE and node.args else None
    return given is not None and _is_number(given)


def _is_empty(size: cst.BaseExpression) -> bool:
    return isinstance(size, (cst.Tuple, cst.List)) and not size.elements


def _is_number(given: cst.BaseExpression) -> bool:
    """Whether an expression is a number of Python's."""
    if isinstance(given, (cst.Integer, cst.Float)):
        return True
    if isinstance(given, cst.UnaryOperation):
        return _is_number(given.expression)
    if isinstance(given, cst.BinaryOperation):
        return _is_number(given.left) and _is_number(given.right)
    if not isinstance(given, cst.Call):
        return False
    called = dotted(given.func) or ""
    method = given.func.attr.value if isinstance(given.func, cst.Attribute) else ""
    return called in _NUMBERS or called.split(".")[0] in _OF_NUMBERS or method == "item"
