"""Tensors of a single number, by the call that makes them: they have no rows to be split."""

from __future__ import annotations

import libcst as cst

from ddpify.understanding.syntax import argument, dotted

_BY_SIZE = frozenset("zeros ones full empty rand randn randint normal uniform".split())
_BY_VALUE = frozenset("tensor as_tensor array asarray".split())
_NUMBERS = frozenset("float int len".split())
_OF_ONE = frozenset("round abs".split())  # of an array, they give another
_OF_SEVERAL = frozenset("max min sum".split())  # of rows, they give one
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
    first = given.args[0].value if given.args else None
    if called in _OF_ONE and first is not None:
        return _is_number(first)
    if called in _OF_SEVERAL and first is not None:
        return all(_is_number(one.value) for one in given.args) or _has_numbers(first)
    return called in _NUMBERS or called.split(".")[0] in _OF_NUMBERS or _method(given) == "item"


def _has_numbers(several: cst.BaseExpression) -> bool:
    """Whether what is gone through are numbers of Python's: those of a tensor, say."""
    if isinstance(several, (cst.GeneratorExp, cst.ListComp)):
        return _is_number(several.elt)
    return isinstance(several, cst.Call) and _method(several) == "tolist"


def _method(call: cst.Call) -> str:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
