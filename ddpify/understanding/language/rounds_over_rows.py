"""What a round of a loop over a tensor gets: one of its rows, or one of several tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import record, replace
from ddpify.understanding import uses
from ddpify.understanding.answers import first_answer
from ddpify.understanding.arithmetic import lifted_rows, single_samples, tensor_parts
from ddpify.understanding.batching import collating, ragged_samples
from ddpify.understanding.forms import SEVERAL_TENSORS, Layout, NumberKind
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import NO_ROWS, REPLICATED, Data, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


@record
class _Loop:
    """A loop over what ranks hold of a batch."""

    run: RunState
    node: cst.BaseExpression
    rows: Data


def element(run: RunState, node: cst.BaseExpression, rows: Data) -> Value:
    """What ``for x in rows`` binds."""
    loop = _Loop(run, node, rows)
    known = first_answer(_RULES, loop)
    return _row(loop) if known is None else known


def _of_all_samples(loop: _Loop) -> Value | None:
    return lifted_rows.asked(loop.run, "unbind", [loop.rows])


def _sample(loop: _Loop) -> Value | None:
    """One of the samples that a collate function gets, or what one of those holds."""
    rows = loop.rows
    if rows.form is Layout.SAMPLES:
        return value(replace(collating.sample(rows), form=Layout.SAMPLE))
    if rows.dim != NO_ROWS:
        return None
    return value(ragged_samples.one_of(rows) if loop.run.collating else collating.sample(rows))


def _as_large_as_a_batch(loop: _Loop) -> Value | None:
    return REPLICATED if loop.rows.form is Layout.SIZED else None


def _position(loop: _Loop) -> Value | None:
    """A number that counts rows."""
    run, rows = loop.run, loop.rows
    if rows.counting and not run.collating:
        run.demand(loop.node, value(rows), uses.POSITIONS)
        return REPLICATED
    if rows.form is Layout.PERMUTATION and not run.collating:  # of the rows of all ranks
        return value(Data(Placement.REPLICATE, rows.loaders, form=NumberKind.PLACE))
    return None


def _of_all_ranks(loop: _Loop) -> Value | None:
    """Perhaps one of several tensors, or else one of the samples of all ranks."""
    rows = loop.rows
    if rows.form is not Layout.GATHERED:
        return None
    if rows.opaque:
        return value(rows)
    single = not rows.dim and loop.run.frames_forward()
    return value(rows.placed(Placement.REPLICATE)) if single else None


def _tensor_of_several(loop: _Loop) -> Value | None:
    """Perhaps one of several tensors, perhaps a row."""
    run, rows = loop.run, loop.rows
    if rows.form not in SEVERAL_TENSORS and not rows.opaque:
        return None
    unseen = rows.form not in SEVERAL_TENSORS and rows.placement is Placement.SHARD
    if unseen and not run.frames_forward():
        run.demand(loop.node, value(rows), uses.PERHAPS_SAMPLES)
    elif unseen:
        run.facts.rows.taken_apart[loop.node] = run.site(loop.node)
    return value(replace(rows, form=Layout.PART) if rows.form is Layout.BATCH else rows)


def _along_another_dimension(loop: _Loop) -> Value | None:
    rows = loop.rows
    if rows.dim <= 0 or rows.placement is not Placement.SHARD:
        return None
    return value(replace(rows, dim=rows.dim - 1, definition_sites=frozenset(), ndim=0))


def _elements(loop: _Loop) -> Value | None:
    """An element of what other rows lie between, or a size of a rank's rows."""
    run, rows = loop.run, loop.rows
    if rows.form is Layout.MIXED:
        run.demand(loop.node, value(rows), uses.POSITIONS)
        return REPLICATED
    if rows.form is NumberKind.SHAPE and rows.placement is Placement.SHARD:
        run.demand(loop.node, value(rows), uses.A_COUNT)
        return REPLICATED
    return None


def _item(loop: _Loop) -> Value | None:
    """An item of a list, which cannot be gathered as a tensor's rows are."""
    rows = loop.rows
    listed = rows.form is Layout.LISTED
    return value(replace(rows, placement=Placement.ROWS, form=Layout.ROW)) if listed else None


_RULES = (
    _of_all_samples,
    _sample,
    _as_large_as_a_batch,
    _position,
    _of_all_ranks,
    _tensor_of_several,
    _along_another_dimension,
    _elements,
    _item,
)
"""The first that says something of a loop is right; any other goes through the rows."""


def _row(loop: _Loop) -> Value:
    run, node, rows = loop.run, loop.node, loop.rows
    if _is_of_own_length(run, rows):
        run.demand(node, value(rows), uses.POSITIONS)  # a rank has fewer rounds, or more
    definition_sites = {
        Placement.SHARD: frozenset({node}),
        # they are replicated where what they were picked from is
        Placement.ROWS: rows.definition_sites,
    }.get(rows.placement, frozenset())
    form = Layout.ROW if definition_sites else rows.form
    placement = tensor_parts.picked(rows.placement)
    row = replace(rows, placement=placement, definition_sites=definition_sites, form=form)
    row = single_samples.one_by_one(run, row, node) if form is Layout.ROW else row
    return value(replace(row, ndim=0, one_each=rows.one_each or rows.placement.partial))


def _is_of_own_length(run: RunState, picked: Data) -> bool:
    """Whether a loop through picked rows may have more rounds on one rank than on another.

    Not through what a loop over all samples has of each: on whichever rank, it is the same.
    """
    if picked.placement is not Placement.ROWS or picked.form is Layout.ROW or run.collating:
        return False
    sites, in_turn = picked.definition_sites, run.facts.rows.in_turn
    return not sites or not all(in_turn.get(site) for site in sites)
