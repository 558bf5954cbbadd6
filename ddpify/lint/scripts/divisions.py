"""The divisions of a script, in every form."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.script import Script

Division = tuple[cst.CSTNode, cst.BaseExpression, cst.BaseExpression]


def divisions(script: Script) -> Iterator[Division]:
    """Every ``a / b`` and ``a /= b`` of the file: the node, what is divided, and by what."""
    for node in script.structure.all(cst.BinaryOperation):
        if isinstance(node.operator, (cst.Divide, cst.FloorDivide)):
            yield node, node.left, node.right
    for statement in script.structure.all(cst.AugAssign):
        if isinstance(statement.operator, cst.DivideAssign):
            yield statement, statement.target, statement.value
