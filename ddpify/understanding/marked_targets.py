"""How scripts mark targets that PyTorch's losses leave out, where they are told nothing else."""

from __future__ import annotations

import libcst as cst

IGNORED = -100


def is_mark(node: cst.CSTNode) -> bool:
    """Whether this is the number, as it is written."""
    negative = isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus)
    number = node.expression if negative else None  # type: ignore[attr-defined]
    return isinstance(number, cst.Integer) and number.value == str(-IGNORED)
