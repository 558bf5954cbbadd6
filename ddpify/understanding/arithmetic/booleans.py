"""Masks: which tensors surely hold truth values.

An index by a mask leaves some of a rank's own rows. An index by anything else may hold positions,
which count the rows of the global batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ddpify.records import replace
from ddpify.understanding.values import (
    Atom,
    Data,
    Instance,
    QualifiedName,
    Tup,
    Value,
    deep_atoms,
    value,
)

TESTS = frozenset(
    "eq ne gt lt ge le not_equal greater greater_equal less less_equal isnan isfinite isinf"
    " isposinf isneginf isreal isclose isin signbit bool logical_and logical_or logical_xor"
    " logical_not any all".split()
)
KEEPING = frozenset(
    "bitwise_and bitwise_or bitwise_xor bitwise_not clone contiguous copy cpu cuda detach expand"
    " expand_as flatten flip gather index_select masked_select narrow numpy permute ravel repeat"
    " reshape roll select squeeze stack t tile to transpose unsqueeze view where cat concat"
    " concatenate".split()
)
_CONVERTING = frozenset("to type astype".split())
_TRUTH = ("torch.bool", "torch.BoolTensor", "bool", "builtins.bool", "numpy.bool_", "numpy.bool")
_OPERATORS = frozenset("&|^")


def of_function(
    name: str, operands: Iterable[Value], rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> bool:
    """Whether a function by its last name gives a mask of these operands."""
    shown = [kwargs["dtype"]] if "dtype" in kwargs else [*rest, *kwargs.values()]
    kinds = [a.name for one in shown for a in one.atoms if isinstance(a, QualifiedName)]
    if kinds and (name in _CONVERTING or "dtype" in kwargs):
        return all(kind in _TRUTH for kind in kinds)
    return name in TESTS or (name in KEEPING and are_masks(operands))


def of_operator(operator: str, operands: Iterable[Value]) -> bool:
    """Whether ``left operator right`` is a mask."""
    return operator in _OPERATORS and are_masks(operands)


def are_masks(held: Iterable[Value]) -> bool:
    """Whether all tensors among some values are masks, and there is one."""
    data = [one for each in held for one in each.data]
    return bool(data) and all(one.boolean for one in data)


def join_masks(pieces: Value) -> bool:
    """Whether all that a list or tuple of tensors holds, and that is joined, are masks."""
    held = [a for a in deep_atoms(pieces) if not isinstance(a, (Tup, Instance))]
    return bool(held) and all(isinstance(a, Data) and a.boolean for a in held)


def marked(made: Value, boolean: bool) -> Value:
    """A value of which it is known whether its tensors are masks."""
    if all(not isinstance(a, Tup) and _fits(a, boolean) for a in made.atoms):
        return made
    return value(*(_marked(atom, boolean) for atom in made.atoms))


def _fits(atom: Atom, boolean: bool) -> bool:
    return not isinstance(atom, Data) or atom.boolean is boolean


def _marked(atom: Atom, boolean: bool) -> Atom:
    if isinstance(atom, Tup):
        return Tup(tuple(marked(item, boolean) for item in atom.items))
    return replace(atom, boolean=boolean) if isinstance(atom, Data) else atom
