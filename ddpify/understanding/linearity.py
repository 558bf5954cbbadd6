"""Whether what a function returns is linear in its arguments, as far as its code shows.

On several ranks, the gradient that reaches a backward of the script's own is scaled by their
number. A backward that is linear in it passes the factor on; any other needs the gradient itself.
"""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import names_of

_LINEAR_METHODS = frozenset(
    "t transpose permute view reshape contiguous clone sum mean mm matmul bmm mul neg unsqueeze"
    " squeeze expand expand_as flatten index_select gather masked_fill type_as to float double"
    " half cuda cpu div conj T einsum linear conv2d narrow chunk"
    " split cat stack repeat flip roll movedim unfold fold pad select detach mT"
    " view_as reshape_as".split()
)
# What these make is of the kind, or of the size, of a tensor, and not of its elements.
_LIKE_ARGUMENT = frozenset("type_as to expand_as view_as reshape_as".split())
_LIKE = _LIKE_ARGUMENT | frozenset(
    "zeros_like ones_like empty_like full_like rand_like randn_like new_zeros new_ones new_empty"
    " new_full new_tensor size dim numel len".split()
)
_FACTS = frozenset("shape dtype device ndim layout".split())


def is_linear(function: cst.FunctionDef | cst.Lambda, arguments: Collection[str]) -> bool:
    """Whether a function does nothing to its ``arguments`` that is not linear in them."""
    names = _made_of(function, set(arguments))
    return all(
        _keeps_linear(node, names)
        for node in walk(function.body)
        if isinstance(node, (cst.BaseExpression, cst.AugAssign, cst.Assign))
    )


def _made_of(function: cst.FunctionDef | cst.Lambda, names: set[str]) -> set[str]:
    """These names, and those of what is made of them."""
    while True:
        found = set(names)
        for node in walk(function.body):
            targets, given = _binding(node)
            if given is not None and _has(given, found):
                parts = (part for target in targets for part in names_of(target))
                found |= {part.value for part in parts if isinstance(part, cst.Name)}
        if found == names:
            return names
        names = found


def _binding(
    node: cst.CSTNode,
) -> tuple[list[cst.BaseAssignTargetExpression | cst.BaseExpression], cst.CSTNode | None]:
    """What a statement or an expression gives something to, and what it gives."""
    if isinstance(node, cst.Assign):
        return [one.target for one in node.targets], node.value
    if isinstance(node, (cst.For, cst.CompFor)):
        return [node.target], node.iter
    if isinstance(node, (cst.AugAssign, cst.AnnAssign, cst.NamedExpr)):
        return [node.target], node.value
    return [], None


def _has(node: cst.CSTNode, names: set[str]) -> bool:
    """Whether an expression is made of the elements of any of these."""
    if isinstance(node, cst.Attribute) and node.attr.value in _FACTS:
        return False
    if isinstance(node, cst.Name):
        return node.value in names
    if isinstance(node, cst.Attribute):
        return _has(node.value, names)
    if isinstance(node, cst.Call) and _called(node) in _LIKE:
        return _called(node) in _LIKE_ARGUMENT and _has(node.func, names)
    return any(_has(one, names) for one in node.children)


def _keeps_linear(node: cst.CSTNode, names: set[str]) -> bool:
    if isinstance(node, cst.BinaryOperation):
        return _combines(node, names)
    if isinstance(node, cst.Comparison):
        return not _has(node, names) or _is_a_test_for_none(node)
    if isinstance(node, cst.Call) and _has(node, names):
        return _called(node) in _LINEAR_METHODS
    if isinstance(node, cst.AugAssign) and (_has(node.value, names) or _has(node.target, names)):
        return _scales_in_place(node, names)
    if isinstance(node, cst.Assign):
        return all(_writes_linear(one.target, node.value, names) for one in node.targets)
    if isinstance(node, cst.Subscript):
        return not any(_has(part, names) for part in node.slice)
    return not isinstance(node, (cst.IfExp, cst.BooleanOperation)) or not _has(
        node.test if isinstance(node, cst.IfExp) else node, names
    )


def _combines(node: cst.BinaryOperation, names: set[str]) -> bool:
    left, right = _has(node.left, names), _has(node.right, names)
    if isinstance(node.operator, (cst.Multiply, cst.MatrixMultiply)):
        return not (left and right)
    if isinstance(node.operator, cst.Divide):
        return not right
    if isinstance(node.operator, (cst.Add, cst.Subtract)):
        return left == right
    return not (left or right)


def _scales_in_place(node: cst.AugAssign, names: set[str]) -> bool:
    if isinstance(node.operator, (cst.MultiplyAssign, cst.DivideAssign)):
        return not _has(node.value, names)
    adding = isinstance(node.operator, (cst.AddAssign, cst.SubtractAssign))
    return adding and _has(node.value, names)


def _writes_linear(target: cst.BaseExpression, given: cst.BaseExpression, names: set[str]) -> bool:
    """Whether an element that is written is zero, or as linear as the others."""
    if not isinstance(target, cst.Subscript) or not _has(target.value, names):
        return True
    zero = isinstance(given, (cst.Integer, cst.Float)) and not given.evaluated_value
    return zero or _has(given, names)


def _is_a_test_for_none(node: cst.Comparison) -> bool:
    return all(isinstance(one.operator, (cst.Is, cst.IsNot)) for one in node.comparisons)


def _called(call: cst.Call) -> str:
    name = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    return name.value if isinstance(name, cst.Name) else ""
