"""Whether a number is used as a size alone: of a new tensor, a view, a slice or a range.

A rank's own longest sequence is as good for its own rows as that of all ranks. Anything else that
is computed with such a number makes it a part of the result. Numbers that a range counts up to the
number of samples are such a result: where a sample stands in the whole batch.
"""

from __future__ import annotations

import libcst as cst

from ddpify.understanding.structure import Structure

_DEEPEST = 4  # names that a number gets, one of the other
_SIZED = frozenset(
    "arange zeros ones empty full rand randn range new_zeros new_ones new_empty new_full view"
    " reshape expand repeat narrow interpolate pad one_hot eye linspace tile"
    " unflatten split chunk".split()
)
_COUNTING = frozenset({"arange", "range", "eye", "linspace"})
_OF_SAMPLES = _SIZED - _COUNTING
_FILLING = ("value", "fill_value")
_SAME = frozenset("int item max min len ceil floor round long cpu detach tolist".split())


def is_only_a_size(structure: Structure, node: cst.CSTNode, *, of_samples: bool = False) -> bool:
    """Whether all that is made of an expression in its function is a size.

    of_samples: whether it is computed from the number of samples, which ranges may not count.
    """
    return _is_size(structure, node, _DEEPEST, _OF_SAMPLES if of_samples else _SIZED)


def _is_size(structure: Structure, node: cst.CSTNode, left: int, taking: frozenset[str]) -> bool:
    below, above = node, structure.parents.get(node)
    while above is not None:
        if isinstance(above, cst.Slice) or (
            isinstance(above, cst.Arg) and _is_for_a_size(structure, above, taking)
        ):
            return True
        if isinstance(above, cst.Assign) and above.value is below:
            return _are_sizes(structure, above, left, taking)
        if not _passes_on(structure, above) or (taking is _OF_SAMPLES and _is_moved(above)):
            return False
        below, above = above, structure.parents.get(above)
    return False


def _is_for_a_size(structure: Structure, given: cst.Arg, taking: frozenset[str]) -> bool:
    """Whether an argument tells a size, and not what ``torch.full(sizes, x)`` is filled with."""
    call = structure.parents[given]
    name = _called(call)
    if name not in taking or (given.keyword is not None and given.keyword.value in _FILLING):
        return False
    first = isinstance(call, cst.Call) and call.args[0] is given
    return first or given.keyword is not None or name not in ("full", "new_full")


def _passes_on(structure: Structure, above: cst.CSTNode) -> bool:
    """Whether a number is still there in what is around it: ``int(n) + 1``, ``(n, 4)``."""
    if isinstance(above, cst.Call):
        return _called(above) in _SAME
    if isinstance(above, cst.Attribute):
        return above.attr.value in _SAME
    kept = (cst.Arg, cst.BinaryOperation, cst.UnaryOperation, cst.Element, cst.Tuple, cst.List)
    return isinstance(above, kept)


def _is_moved(above: cst.CSTNode) -> bool:
    """Whether this adds to a number, or takes from it: ``8 - n`` is no rank's part of anything."""
    moving = (cst.Add, cst.Subtract)
    return isinstance(above, cst.BinaryOperation) and isinstance(above.operator, moving)


def _called(node: cst.CSTNode) -> str:
    if not isinstance(node, cst.Call):
        return ""
    name = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
    return name.value if isinstance(name, cst.Name) else ""


def _are_sizes(
    structure: Structure, assigned: cst.Assign, left: int, taking: frozenset[str]
) -> bool:
    """Whether the names that get a number stand for a size wherever they are read."""
    targets = [target.target for target in assigned.targets]
    names = {target.value for target in targets if isinstance(target, cst.Name)}
    if not left or len(names) < len(targets):
        return False
    around = structure.function(assigned) or structure.tree
    reads = [
        one
        for one in structure.inside(around, cst.Name)
        if one.value in names and not isinstance(structure.parents.get(one), cst.AssignTarget)
    ]
    return all(_is_size(structure, one, left - 1, taking) for one in reads)
