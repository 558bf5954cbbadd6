"""The last size of a tensor, as far as the code that makes it shows it.

``torch.ones(4, 1)`` is one wide: rows times it are columns of one number each.
"""

from __future__ import annotations

import libcst as cst

from ddpify.understanding.project import ModuleFile
from ddpify.understanding.syntax import argument

PRODUCTS = frozenset("matmul mm addmm".split())  # as wide as the last of their tensors
_UNKNOWN = 0
_DEEPEST = 6  # names and calls that lead to what makes a tensor
_BY_SIZES = frozenset("randn rand zeros ones empty view reshape expand repeat".split())
_BY_ONE_SIZE = _BY_SIZES | frozenset("full randint normal uniform".split())
_SHOWING_ANOTHER = frozenset("Parameter Variable tensor as_tensor".split())
_KEEPING = frozenset(
    "to cpu cuda float double half requires_grad_ detach clone contiguous type mul div abs".split()
)


def of_expression(node: cst.BaseExpression, module: ModuleFile) -> int:
    """The last size of a tensor with several dimensions; 0 where it is not known."""
    return _of(node, module, _DEEPEST)


def of_product(node: cst.CSTNode, module: ModuleFile) -> int:
    """The width of what a call gives that multiplies by its last argument; 0 where not known."""
    if not isinstance(node, cst.Call):
        return _UNKNOWN
    given = [one.value for one in node.args if one.keyword is None]
    return of_expression(given[-1], module) if given else _UNKNOWN


def _of(node: cst.BaseExpression, module: ModuleFile, left: int) -> int:
    if not left:
        return _UNKNOWN
    if isinstance(node, cst.Call):
        return _of_call(node, module, left - 1)
    if isinstance(node, (cst.Name, cst.Attribute)):
        structure = module.structure
        within = structure.class_of(node) if isinstance(node, cst.Attribute) else None
        around = within or structure.function(node) or structure.tree
        given = structure.given(node, around) or structure.given(node, structure.tree)
        found = {_of(one, module, left - 1) if one else _UNKNOWN for _, one in given}
        return found.pop() if len(found) == 1 else _UNKNOWN
    if isinstance(node, cst.Subscript):
        return _of_item(node)
    if isinstance(node, cst.BinaryOperation):
        sides = [_of(side, module, left - 1) for side in (node.left, node.right)]
        return next((side for side in sides if side), _UNKNOWN)
    return _UNKNOWN


def _of_call(node: cst.Call, module: ModuleFile, left: int) -> int:
    called = node.func
    name = called.attr.value if isinstance(called, cst.Attribute) else getattr(called, "value", "")
    plain = [one.value for one in node.args if one.keyword is None and not one.star]
    if name in _SHOWING_ANOTHER and plain:
        return _of(plain[0], module, left)
    if name in _KEEPING and isinstance(called, cst.Attribute):
        return _of(called.value, module, left)
    if name == "unsqueeze" and plain:
        return int(isinstance(plain[-1], cst.Integer) and plain[-1].value == "1")
    size = argument(node, "size")
    shapes = [size.value] if size else [a for a in plain if isinstance(a, (cst.Tuple, cst.List))]
    if len(shapes) == 1 and name in _BY_ONE_SIZE and isinstance(shapes[0], (cst.Tuple, cst.List)):
        return _last([one.value for one in shapes[0].elements])
    return _last(plain) if name in _BY_SIZES else _UNKNOWN


def _last(sizes: list[cst.BaseExpression]) -> int:
    """The last of several sizes, where it is a literal."""
    last = sizes[-1] if len(sizes) > 1 else None
    return int(last.evaluated_value) if isinstance(last, cst.Integer) else _UNKNOWN


def _of_item(node: cst.Subscript) -> int:
    """One of ``w[:, None]`` and ``w[:, :1]``; 0 for others."""
    last = node.slice[-1].slice if len(node.slice) > 1 else None
    if isinstance(last, cst.Index):
        return int(isinstance(last.value, cst.Name) and last.value.value == "None")
    return int(isinstance(last, cst.Slice) and _is_first(last))


def _is_first(part: cst.Slice) -> bool:
    upper = part.upper
    return part.lower is None and isinstance(upper, cst.Integer) and upper.value == "1"
