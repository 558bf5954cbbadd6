"""Masks of positions by positions that enter a model beside a batch: they have no rows of it."""

from __future__ import annotations

import libcst as cst

from ddpify.understanding.facts import Facts
from ddpify.understanding.libraries.distributed import library_names
from ddpify.understanding.syntax import code_of
from ddpify.understanding.taint.call_graph import called
from ddpify.understanding.taint.taken_apart import elements

_CUTTING = frozenset({"torch.tril", "torch.triu"})
_METHODS = frozenset({"tril", "triu", "tril_", "triu_"})
_FILLED = frozenset({"torch.ones", "torch.zeros", "torch.full", "torch.empty"})
# What has as many rows as the mask that it is called on.
_SAME = frozenset(
    "bool float double int long to cuda cpu type type_as clone detach contiguous logical_not eq ne"
    " masked_fill masked_fill_".split()
)
_MOST_CALLS = 3


def is_square_mask(facts: Facts, node: cst.CSTNode, calls: int = _MOST_CALLS) -> bool:
    """Whether an expression is a triangular matrix or an identity: ``torch.tril(ones) == 0``.

    A function of the project may give it.
    """
    while isinstance(node, (cst.UnaryOperation, cst.Comparison, cst.Call)):
        if isinstance(node, cst.UnaryOperation):
            node = node.expression
        elif isinstance(node, cst.Comparison):
            node = node.left
        elif _is_method(node, _SAME):
            node = cst.ensure_type(node.func, cst.Attribute).value
        else:
            break
    if not isinstance(node, cst.Call):
        return False
    names = _names(facts, node)
    cut: cst.CSTNode | None = None
    if names & _CUTTING and node.args:
        cut = node.args[0].value
    elif _is_method(node, _METHODS):
        cut = cst.ensure_type(node.func, cst.Attribute).value
    if cut is not None:
        return bool(_names(facts, cut) & _FILLED) and _is_square(cst.ensure_type(cut, cst.Call))
    return "torch.eye" in names or _is_given(facts, node, calls)


def _is_square(made: cst.Call) -> bool:
    """``ones(n, n)``, ``full((1, n, n), value)``: no matrix for each sample."""
    sizes: list[cst.BaseExpression] = [one.value for one in made.args if one.keyword is None]
    sizes = elements(sizes[0]) or sizes if sizes else []
    while sizes and isinstance(sizes[0], cst.Integer) and sizes[0].evaluated_value == 1:
        sizes = sizes[1:]
    return len(sizes) == 2 and code_of(sizes[0]) == code_of(sizes[1])


def _names(facts: Facts, node: cst.CSTNode) -> set[str]:
    """The library functions that are called here."""
    return {*library_names(facts.values.get(node.func))} if isinstance(node, cst.Call) else set()


def _is_method(node: cst.Call, names: frozenset[str]) -> bool:
    return isinstance(node.func, cst.Attribute) and node.func.attr.value in names


def _is_given(facts: Facts, call: cst.Call, calls: int) -> bool:
    """Whether all that a function of the project returns is such a mask."""
    given = [
        one.value
        for function in called(facts, call)
        for one in function.module.structure.inside(function.node, cst.Return)
    ]
    return bool(given and calls) and all(
        one is not None and is_square_mask(facts, one, calls - 1) for one in given
    )
