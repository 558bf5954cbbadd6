"""Rows with one number each and a dimension of size one behind them: ``w.view(-1, 1)``.

Beside a tensor with a single dimension, each of them meets all samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ddpify.records import replace
from ddpify.understanding.operators.rules import Rule
from ddpify.understanding.operators.table import rule_of
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import dimensions
from ddpify.understanding.values import UNKNOWN, Atom, Data, Tup, Value, value

_OF_WIDTH_ONE = ("narrow", "split", "topk")  # told by their first or their third argument
_SUMMING = frozenset("sum mean amax amin prod logsumexp".split())
_LIKE = ("view_as", "reshape_as", "expand_as")
_BY_INDEX = ("gather", "take_along_dim")


def noted(
    made: Value, name: str, source: Data, rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value:
    """What a function makes of rows, with whether it may be such a column."""
    column = source.placement is Placement.SHARD and _is_column(name, source, rest, kwargs)
    return value(*(_with(atom, column) for atom in made.atoms))


def _with(atom: Atom, column: bool) -> Atom:
    if isinstance(atom, Tup):
        return Tup(tuple(value(*(_with(one, column) for one in item.atoms)) for item in atom.items))
    if not isinstance(atom, Data) or atom.column == column:
        return atom
    return replace(atom, column=column)


def _is_column(name: str, source: Data, rest: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    given = [one.constant() for one in rest]
    like = [one for held in rest[:1] for one in held.of(Data)]
    if name in _LIKE or (name in ("view", "reshape") and len(given) == 1 and like):
        return source.column or any(one.column for one in like)
    if name in ("view", "reshape"):
        wide = {-1, 1} if may_be_single(source) else {1}
        return len(given) > 1 and given[0] not in (0, 1) and set(given[1:]) <= wide
    if name in ("unsqueeze", "expand_dims"):
        return source.column or may_be_single(source)
    if name in _OF_WIDTH_ONE:
        return given[:1] == [1] or given[2:] == [1] or kwargs.get("k", UNKNOWN).constant() == 1
    kept = name in _SUMMING and given[1:] == [True]
    kept |= (kwargs.get("keepdim") or kwargs.get("keepdims") or UNKNOWN).constant() is True
    if kept and source.ndim in (0, 2):
        return True
    alike = dimensions.keeps(name) or rule_of(name) is Rule.ELEMENTWISE or name in _BY_INDEX
    return source.column and alike


def may_be_single(rows: Data) -> bool:
    """Whether these may have no dimension but that of the samples."""
    return rows.dim == 0 and (rows.ndim == 1 or (rows.one_each and not rows.ndim))


def may_meet_all(one: Data, other: Data) -> bool:
    """Whether each of these rows may be broadcast beside all of the others."""
    return any(
        left.column and left.dim == 0 and not right.column and may_be_single(right)
        for left, right in ((one, other), (other, one))
    )
