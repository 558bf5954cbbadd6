"""Sizes counted from the end of a tensor of unknown dimensions, perhaps the number of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.forms import SEVERAL_TENSORS, Layout, NumberKind
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import dimensions, tensor_sizes
from ddpify.understanding.values import REPLICATED, Data, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_ADDING = (cst.AddAssign, cst.SubtractAssign)
_FORMS = (Layout.TENSOR, NumberKind.SHAPE, *SEVERAL_TENSORS)
_TELLING = ("print", "append")
_LAYING_OUT = ("view", "reshape", "expand")
_AMONG_SIZES = (cst.BaseElement, cst.Tuple, cst.List, cst.BinaryOperation, cst.Subscript, cst.Index)


def note(run: RunState, node: cst.BaseExpression, data: Data, dim: object) -> None:
    """Note where ``x.size(-1)`` counts samples; elsewhere it is that of what a rank holds."""
    rows = data.placement is Placement.SHARD and data.form in _FORMS
    unsure = dim == -1 and data.dim == 0 == data.ndim
    seen = rows and unsure and not run.collating and not run.frames_forward()
    if seen and (_is_added_up(run, node) or any(_is_added_up(run, n) for n in _named(run, node))):
        run.facts.sizes.last_sizes.setdefault(node, run.site(node))


def perhaps_of_rows(
    run: RunState, node: cst.BaseExpression, shape: cst.BaseExpression, data: Data, dim: object
) -> Value | None:
    """``x.size(-2)`` of a tensor of unknown dimensions, which may count samples; None for others.

    A rank lays out its own rows by its own number of them. Elsewhere it is that of all ranks, of
    whose rows ``shape`` is asked for.
    """
    plain = data.placement is Placement.SHARD and data.form in (Layout.TENSOR, NumberKind.SHAPE)
    if not plain or data.opaque or run.collating or not dimensions.may_be_of_rows(data, [dim]):
        return None
    sizes = tensor_sizes.shape(data)
    if all(_lays_out_rows(run, read) for read in list(_named(run, node)) or [node]):
        return value(replace(sizes, opaque=True))
    if shape not in run.choices.reduced:
        run.demand(shape, value(sizes), uses.A_SIZE_FROM_THE_END)
    return value(sizes) if shape is node else REPLICATED


def _lays_out_rows(run: RunState, size: cst.CSTNode) -> bool:
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


def _is_added_up(run: RunState, node: cst.CSTNode) -> bool:
    """Whether a number goes into a total, or divides the sum of a rank's rows."""
    parents = run.module.parents
    below, above = node, parents[node]
    while isinstance(above, cst.BinaryOperation):
        if isinstance(above.operator, cst.Divide) and above.right is below:
            summed = run.seen(above.left).data
            return any(data.placement is Placement.SUM for data in summed)
        below, above = above, parents[above]
    if isinstance(above, cst.AugAssign) and isinstance(above.operator, _ADDING):
        return above.value is below and run.outlives_batch(above.target)
    return isinstance(above, cst.FormattedStringExpression) or _is_told(parents[above], above)


def _is_told(call: cst.CSTNode, argument: cst.CSTNode) -> bool:
    """Whether an argument is printed, or kept in a list."""
    if not isinstance(call, cst.Call) or not isinstance(argument, cst.Arg):
        return False
    name = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    return isinstance(name, cst.Name) and name.value in _TELLING
