"""Statements that write a tensor in place: what they change, and what they take for it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.understanding.structure import Structure

_READING = frozenset("clone to float mean sum size item cpu".split())
RESIZING = frozenset("resize_ resize_as_ set_".split())
_VIEWS = frozenset("data T mT real".split())


def targets(node: cst.CSTNode) -> list[cst.BaseExpression]:
    """What an assignment, or a call of a method that works in place, changes."""
    if isinstance(node, cst.Assign):
        return [one.target for one in node.targets]
    if isinstance(node, cst.AugAssign):
        return [node.target]
    return [node.func.value] if is_in_place(node) else []  # type: ignore[attr-defined]


def sources(node: cst.CSTNode) -> list[cst.BaseExpression]:
    """What it is changed by."""
    if isinstance(node, (cst.Assign, cst.AugAssign)):
        return [node.value]
    return [one.value for one in node.args] if isinstance(node, cst.Call) else []


def is_in_place(node: cst.CSTNode) -> bool:
    """Whether a node is a call such as ``x.add_(1)``."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    name = node.func.attr.value
    return name.endswith("_") and not name.startswith("_")


def is_written(structure: Structure, node: cst.CSTNode) -> bool:
    """Whether an expression, or a part of what it stands for, is changed in place there."""
    above = structure.parents.get(node)
    if isinstance(above, (cst.AssignTarget, cst.AugAssign)):
        return above.target is node
    if isinstance(above, cst.Subscript) and above.value is node:
        return is_written(structure, above)
    call = structure.parents.get(above) if isinstance(above, cst.Attribute) else None
    return call is not None and is_in_place(call) and call.func is above  # type: ignore[attr-defined]


def holders(target: cst.BaseExpression) -> Iterator[cst.Name | cst.Attribute]:
    """The names and attributes through which a target is reached, the tensor's own first.

    ``self.x`` of ``self.x``, ``self.x[...]``, ``self.x.data`` and chains of methods that work in
    place. What a method makes anew is none.
    """
    node = target
    while isinstance(node, (cst.Attribute, cst.Subscript, cst.Call)):
        if isinstance(node, cst.Call):
            if not isinstance(node.func, cst.Attribute) or node.func.attr.value in _READING:
                return
            node = node.func.value
            continue
        if isinstance(node, cst.Attribute) and node.attr.value not in _VIEWS:
            yield node
        node = node.value
    if isinstance(node, cst.Name):
        yield node
