"""Sizes of tensors."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from ddpify.records import replace
from ddpify.understanding.forms import Layout, NumberKind
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import dimensions
from ddpify.understanding.values import (
    REPLICATED,
    Const,
    Data,
    Number,
    Value,
    deep_atoms,
    value,
)


def without_counts(whole: Value) -> Value:
    """The value with each count taken for a size that follows from the others.

    Where it may be a count or a plain number, the tensor whose size it is may be sharded or not,
    and it is the count for the sharded one.
    """
    counts = [d for d in whole.data if d.placement is Placement.COUNT or is_own_number(d)]
    if not counts:
        return whole
    others = [a for a in whole.atoms if a not in counts and not isinstance(a, Number)]
    return value(Const(-1), *others)


def counts(sizes: Value) -> list[Data]:
    """The numbers of this rank's rows among sizes: one of them, or a list."""
    held = (a for a in deep_atoms(sizes) if isinstance(a, Data))
    return [a for a in held if a.placement is Placement.COUNT]


def measured(asked: cst.CSTNode) -> cst.BaseExpression | None:
    """The tensor of ``len(x)``, ``x.size(0)``, ``x.shape`` or ``x.shape[0]``; None for others."""
    if isinstance(asked, cst.Subscript):
        return measured(asked.value)
    if isinstance(asked, cst.Attribute):
        return asked.value
    if isinstance(asked, cst.Call) and isinstance(asked.func, cst.Attribute):
        return asked.func.value
    return asked.args[0].value if isinstance(asked, cst.Call) and asked.args else None


def is_own_number(data: Data) -> bool:
    """Whether this is the number of a rank's ragged rows, which shapes tensors too."""
    return data.placement is Placement.SUM and data.form is NumberKind.NUMBER


def rows_as_many(number: Data) -> Data:
    """Rows of which there are as many as a rank's own rows."""
    form = Layout.MASKED if is_own_number(number) else Layout.TENSOR
    return replace(number.placed(Placement.SHARD), form=form)


def size(data: Data, node: cst.BaseExpression, rest: Sequence[Value]) -> Value:
    """``tensor.size(...)`` and ``len(tensor)``."""
    dim = dimensions.place(rest[0].constant(), data.ndim) if rest else ...
    if data.placement is Placement.COUPLED and rest:
        return value(data)  # as large as the rows of all ranks make it, along any dimension
    if isinstance(dim, int) and 0 <= dim != data.dim:
        return REPLICATED
    known = global_size(data) if rest or data.form is not Layout.GATHERED else value(shape(data))
    if known is not None:
        return known
    if data.ragged and dim in (..., data.dim):
        return value(first_size(shape(data)))
    if not rest:
        return value(shape(data))
    if dim is ... or dim == data.dim:
        return count(data, node)
    return REPLICATED


def elements(data: Data, node: cst.BaseExpression | None = None) -> Value:
    """How many elements a tensor or array has: a rank counts those of its own rows."""
    if data.placement is Placement.COUPLED:  # as many as the rows of all ranks leave
        return value(replace(data, ndim=0))
    if data.placement is Placement.ROWS and data.definition_sites and data.form is not Layout.ROW:
        return value(replace(data, form=NumberKind.NUMBER))
    whole = data.form in (Layout.ROW, Layout.PERMUTATION)
    alike = whole or data.placement.partial or not data.placement.local
    definition_sites = frozenset() if node is None else frozenset({node})
    added_up = data.placed(Placement.SUM)
    counted = replace(
        added_up, definition_sites=definition_sites, form=NumberKind.MULTIPLE, found_in=frozenset()
    )
    return REPLICATED if alike else value(counted)


def shape(data: Data) -> Data:
    """The sizes of a tensor. The first of ragged rows says nothing about the batch's size."""
    placement = Placement.COUPLED if data.ragged else data.placement
    if data.form is Layout.PERMUTATION:  # of all rows
        placement = Placement.REPLICATE
    sizes = replace(data, placement=placement, form=NumberKind.SHAPE, definition_sites=frozenset())
    return replace(sizes, found_in=frozenset())


def first_size(sizes: Data, node: cst.BaseExpression | None = None) -> Data:
    """The size along the dimension of the rows; that of a batch is counted where it is asked for.

    That of ragged rows shapes tensors too: it is summed where it is read.
    """
    if sizes.placement is Placement.COUPLED:
        return replace(sizes, placement=Placement.SUM, form=NumberKind.NUMBER)
    if sizes.placement is Placement.REPLICATE:
        return replace(sizes.placed(Placement.REPLICATE), form=NumberKind.TOTAL)
    definition_sites = sizes.definition_sites if node is None else frozenset({node})
    return replace(
        sizes, placement=Placement.COUNT, form=NumberKind.NUMBER, definition_sites=definition_sites
    )


def global_size(data: Data) -> Value | None:
    """The size of what is no shard: the same on all ranks, unless rows were picked by position."""
    if data.form is Layout.ROW:
        return REPLICATED
    if data.placement is Placement.ROWS and data.definition_sites:
        return value(replace(data, form=NumberKind.NUMBER))
    if data.placement is Placement.COUPLED:
        return value(data)  # as large as the rows of all ranks make it
    whole = data.form is Layout.GATHERED and data.placement is Placement.REPLICATE
    if whole or data.form is Layout.PERMUTATION:
        return value(replace(data.placed(Placement.REPLICATE), form=NumberKind.TOTAL))
    return None if data.placement is Placement.SHARD else REPLICATED


def count(data: Data, node: cst.BaseExpression) -> Value:
    """The number of this rank's rows; its definition site is the expression that asks for it."""
    known = global_size(data)
    if known is not None:
        return known
    if data.ragged:
        return value(first_size(shape(data)))
    several = data.form in (Layout.INTERLEAVED, Layout.STACKED)  # rows for a sample
    form = NumberKind.MULTIPLE if several else NumberKind.NUMBER
    definition_sites = frozenset({node})
    return value(
        replace(
            data, placement=Placement.COUNT, form=form, definition_sites=definition_sites, dim=0
        )
    )
