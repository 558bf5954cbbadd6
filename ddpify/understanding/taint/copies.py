"""Expressions that give a tensor of their own: what a collective changes in it stays there."""

from __future__ import annotations

import libcst as cst

from ddpify.understanding.taint.sources import name_of

_COPY = frozenset({"clone", "deepcopy", "mean", "sum", "item", "tolist", "repeat", "new_tensor"})
# What may give the same memory under another name, or on another device.
_SHARE = frozenset(
    "detach to cuda cpu float double half contiguous view reshape flatten squeeze unsqueeze".split()
)
_MADE = frozenset({"torch.tensor", "torch.stack", "torch.cat", "torch.zeros_like", "copy.deepcopy"})


def is_copy(node: cst.BaseExpression | None) -> bool:
    """Whether an expression surely gives new memory: ``x.detach().clone()``, ``x / 2``."""
    if isinstance(node, cst.BinaryOperation):
        return True
    if not isinstance(node, cst.Call):
        return False
    if name_of(node.func) in _MADE:
        return True
    if not isinstance(node.func, cst.Attribute):
        return False
    method = node.func.attr.value
    return method in _COPY or (method in _SHARE and is_copy(node.func.value))
