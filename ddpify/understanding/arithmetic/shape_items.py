"""Items of a tensor's shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arithmetic import (
    unsure_sizes,
)
from ddpify.understanding.shapes import dimensions, tensor_sizes
from ddpify.understanding.values import (
    REPLICATED,
    Data,
    Tup,
    Value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def item(run: RunState, node: cst.Subscript, atom: Data) -> Value:
    """``x.shape[...]``."""
    first = node.slice[0].slice
    if isinstance(first, cst.Slice):
        return _shape_slice(run, node, first, atom)
    assert isinstance(first, cst.Index)
    index = dimensions.place(run.seen(first.value).constant(), atom.ndim)
    if index is ... or index == atom.dim:
        return value(tensor_sizes.first_size(atom, node))
    if isinstance(index, int) and index < 0 < atom.dim and _is_reckoned_with(run, node):
        run.demand(node.value, value(atom), uses.A_SIZE_FROM_THE_END)
    return unsure_sizes.perhaps_of_rows(run, node, node.value, atom, index) or REPLICATED


def _is_reckoned_with(run: RunState, node: cst.CSTNode) -> bool:
    """Whether a size enters a total, and not the shape of a tensor, which is this rank's."""
    parents = run.module.parents
    while isinstance(parents[node], cst.BinaryOperation):
        node = parents[node]
    return isinstance(parents[node], (cst.AugAssign, cst.Assign)) and not run.frames_forward()


def _shape_slice(run: RunState, node: cst.Subscript, cut: cst.Slice, atom: Data) -> Value:
    """Some of the sizes: those behind the number of rows are the same on all ranks."""
    lower = run.seen(cut.lower).constant() if cut.lower is not None else 0
    upper = run.seen(cut.upper).constant() if cut.upper is not None else None
    if isinstance(lower, int) and 0 <= lower <= atom.dim:
        before = isinstance(upper, int) and 0 <= upper <= atom.dim
        unsure = atom.opaque or dimensions.may_be_of_rows(atom, [upper])  # perhaps without theirs
        return REPLICATED if before else value(replace(atom, dim=atom.dim - lower, opaque=unsure))
    if isinstance(lower, int) and lower < 0 and upper is None:
        rows = unsure_sizes.perhaps_of_rows(run, node, node.value, atom, lower)
        return value(Tup((rows or REPLICATED,) * -lower))
    behind = isinstance(lower, int) and (lower > atom.dim or lower in (-1, -2))
    return REPLICATED if behind else value(atom)
