"""Methods that change a batch's rows by others, as ``z.cumsum_(0)`` does, or at positions in it.

They change the rows of all ranks, and each rank takes its own of those: ``z.copy_(...)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arithmetic import across_samples, tensor_pairs
from ddpify.understanding.arithmetic.tensor_dimensions import (
    OVER_A_DIMENSION,
    may_mix_rows,
    mixes_rows,
)
from ddpify.understanding.arithmetic.tensor_pairs import Operand
from ddpify.understanding.forms import Layout
from ddpify.understanding.operators.in_place import is_in_place
from ddpify.understanding.operators.rules import Rule
from ddpify.understanding.operators.table import rule_of
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import dimensions
from ddpify.understanding.values import NO_ROWS, UNKNOWN, Data, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

# Along the dimension that comes first, at positions of it.
_AT_POSITIONS = frozenset(
    "index_fill index_copy index_add index_reduce scatter scatter_add scatter_reduce".split()
)
_ANYWHERE = frozenset("fill_diagonal index_put masked_scatter put".split())
_PICKED = (Placement.ROWS, Placement.COUPLED)


def changed(
    run: RunState,
    node: cst.BaseExpression,
    name: str,
    operands: Sequence[Operand],
    data: Data,
    rest: Sequence[Value],
    kwargs: Mapping[str, Value],
) -> Value | None:
    """A batch's rows after a change in place that goes across them; None for other methods."""
    in_place = is_in_place(name)
    plain = name[:-1] if in_place else name
    if not in_place and plain not in _AT_POSITIONS | _ANYWHERE:
        return None
    rows = data.placement is Placement.SHARD and data.form is Layout.TENSOR and not data.opaque
    if not rows or data.dim == NO_ROWS or not _goes_across(plain, data, rest, kwargs):
        return None
    (target, _), *arguments = operands
    given = [part for one in arguments for part in tensor_pairs.displayed_parts(run, one)]
    if run.collating:
        run.mixes(node, data)
        return value(data)
    if plain in _AT_POSITIONS and _are_found(given):
        return value(replace(data, definition_sites=frozenset()))
    if not run.module.editable:
        packed = replace(data, definition_sites=frozenset(), form=Layout.PACKED)
        run.demand(target, value(packed), uses.A_CHANGE)
        return value(data)
    made = across_samples.on_all_rows(run, node, target, data)
    for shown, one in given:  # which count the samples of all ranks there
        run.demand(shown, value(*(d for d in one.data if d.counting)), uses.POSITIONS)
    others = tuple(shown for shown, one in given if _is_rows(one))
    named = in_place and isinstance(target, (cst.Name, cst.Attribute))
    known = run.facts.rows.regrouped[node]
    run.facts.rows.regrouped[node] = replace(known, others=others, in_place=named)
    for shown, one in given:
        unlike = (d for d in one.data if d.placement in _PICKED or d.placement.partial)
        run.demand(shown, value(*unlike), uses.A_CHANGE)
    return value(replace(made, ndim=data.ndim))


def _are_found(given: Sequence[Operand]) -> bool:
    """Whether positions that a mask of a rank's own rows holds say where what it left goes."""
    index, *others = [held.data for _, held in given if held.data] or [[]]
    found = bool(index) and all(data.found_in and data.ragged for data in index)
    return found and all(data.ragged for held in others for data in held)


def _is_rows(one: Value) -> bool:
    return any(data.placement is Placement.SHARD for data in one.data)


def _goes_across(name: str, data: Data, rest: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """Whether a method changes rows by others, or at positions in the batch."""
    if name in _AT_POSITIONS:
        given = kwargs.get("dim") or (rest[0] if rest else UNKNOWN)
        dim = dimensions.place(given.constant(), data.ndim)
        return not isinstance(dim, int) or dim < 0 or dim == data.dim
    if name in OVER_A_DIMENSION:
        across = mixes_rows(name, data, rest, kwargs)
        return across or may_mix_rows(name, data, rest, kwargs)
    square = rule_of(name) in (Rule.MIXING, Rule.OF_MATRICES) and data.ndim < 3
    return name in _ANYWHERE or square
