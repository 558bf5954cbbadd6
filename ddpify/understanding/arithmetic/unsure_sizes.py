"""Sizes counted from the end of a tensor of unknown dimensions, perhaps the number of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.forms import Layout, NumberKind
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import dimensions, tensor_sizes
from ddpify.understanding.values import REPLICATED, Data, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_FORMS = (Layout.TENSOR, Layout.BATCH, Layout.PART, NumberKind.SHAPE)
_LAYING_OUT = ("view", "reshape", "expand")
_AMONG_SIZES = (cst.BaseElement, cst.Tuple, cst.List, cst.BinaryOperation, cst.Subscript, cst.Index)


def perhaps_of_rows(
    run: RunState, node: cst.BaseExpression, shape: cst.BaseExpression, data: Data, dim: object
) -> Value | None:
    """``x.size(-2)`` of a tensor of unknown dimensions, which may count samples; None for others.

    A rank lays out its own rows by its own number of them. Elsewhere it is that of all ranks, of
    whose rows ``shape`` is asked for.
    """
    plain = data.placement is Placement.SHARD and data.form in _FORMS and not data.opaque
    if not plain or not dimensions.may_be_of_rows(data, [dim]):
        return None
    sizes = tensor_sizes.shape(data)
    if all(lays_out_rows(run, read) for read in list(_named(run, node)) or [node]):
        return value(replace(sizes, opaque=True))
    if run.collating:
        run.mixes(node, data)
        return None
    if shape not in run.choices.reduced:
        run.demand(shape, value(sizes), uses.A_SIZE_FROM_THE_END)
    return value(sizes) if shape is node else REPLICATED


def lays_out_rows(run: RunState, size: cst.CSTNode) -> bool:
    """Whether a view of a rank's rows, or of what is not known yet, has this among its sizes."""
    parents = run.module.parents
    above = parents[size]
    while isinstance(above, _AMONG_SIZES):
        above = parents[above]
    call = parents[above] if isinstance(above, cst.Arg) else None
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return False
    viewed = run.seen(call.func.value)
    rows = not viewed.atoms or any(d.placement is Placement.SHARD for d in viewed.data)
    return call.func.attr.value in _LAYING_OUT and rows


def _named(run: RunState, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Where the name is read that a size gets."""
    statement = run.module.parents[node]
    if not isinstance(statement, cst.Assign) or statement.value is not node:
        return
    structure = run.module.structure
    names = {t.target.value for t in statement.targets if isinstance(t.target, cst.Name)}
    inside = structure.function(node)
    for read in structure.all(cst.Name):
        if read.value in names and structure.function(read) is inside:
            yield read
