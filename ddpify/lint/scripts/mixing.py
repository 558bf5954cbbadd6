"""Expressions in which the samples of a batch surely meet each other.

That ranks could not put a value together again is no evidence: `chunk` and `view` put samples in
another order or shape, and no sample has met another.
"""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.sharded_values import Reading
from ddpify.understanding.operators.table import COUPLING, OF_MATRICES
from ddpify.understanding.placement import Placement
from ddpify.understanding.syntax import argument
from ddpify.understanding.values import Data

_PRODUCTS = frozenset("matmul mm einsum dot addmm cdist pdist".split())
_OF_ROWS = frozenset(COUPLING - OF_MATRICES)
_ALONG = frozenset(
    "softmax log_softmax softmin logsumexp sort argsort topk median std var norm cumsum cumprod"
    " kthvalue".split()
)
_ROWS = (Placement.SHARD, Placement.COUPLED)


def mixes_samples(script: Reading, node: cst.CSTNode) -> bool:
    """Whether an operation multiplies, compares or sorts the samples of a batch by each other."""
    if not any(d.placement is Placement.COUPLED for d in script.value(node).data):
        return False
    if isinstance(node, cst.BinaryOperation):
        if isinstance(node.operator, cst.MatrixMultiply):
            return _has_rows(script, node.left) and _has_rows(script, node.right)
        return _is_crossed(script, node)
    return isinstance(node, cst.Call) and _is_mixing_call(script, node)


def _is_mixing_call(script: Reading, call: cst.Call) -> bool:
    name = call.func.attr.value if isinstance(call.func, cst.Attribute) else _short(script, call)
    operands = _operands(script, call)
    if name in _PRODUCTS:
        return sum(_has_rows(script, one) for one in operands) > 1 or name == "pdist"
    if name in _OF_ROWS:
        return any(_has_rows(script, one) for one in operands)
    return name in _ALONG and bool(operands) and _is_along_rows(script, call, operands[0])


def _operands(script: Reading, call: cst.Call) -> list[cst.BaseExpression]:
    """What a method is called on and what a call gets."""
    given = [one.value for one in call.args]
    if isinstance(call.func, cst.Attribute) and not script.names(call.func):
        return [call.func.value, *given]
    return given


def _is_along_rows(script: Reading, call: cst.Call, operand: cst.BaseExpression) -> bool:
    """Whether a call that works along a dimension is told that of the samples."""
    method = isinstance(call.func, cst.Attribute) and not script.names(call.func)
    told = argument(call, "dim", 0 if method else 1) or argument(call, "axis")
    if told is None:
        return False
    dimension = script.value(told.value).constant()
    return any(one.dim == dimension and one.placement in _ROWS for one in _data(script, operand))


def _is_crossed(script: Reading, node: cst.BinaryOperation) -> bool:
    """``x[:, None] - x[None]``: each sample with each, of operands that are rows themselves."""
    placements = [one.placement for x in (node.left, node.right) for one in _data(script, x)]
    return len(placements) > 1 and all(one is Placement.SHARD for one in placements)


def _has_rows(script: Reading, node: cst.BaseExpression) -> bool:
    return any(one.placement in _ROWS for one in _data(script, node))


def _data(script: Reading, node: cst.BaseExpression) -> tuple[Data, ...]:
    return tuple(script.value(node).data)


def _short(script: Reading, call: cst.Call) -> str:
    return next(iter(script.names(call.func)), "").rsplit(".", 1)[-1]
