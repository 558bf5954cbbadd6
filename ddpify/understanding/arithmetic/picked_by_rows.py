"""What rows, or their number, take of what all ranks hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arithmetic import picked_dimension, tensor_pairs
from ddpify.understanding.arithmetic.index_kinds import operands
from ddpify.understanding.batching import (
    current_batch,
    handmade_batches,
    row_numbers,
)
from ddpify.understanding.facts import Draw
from ddpify.understanding.forms import Layout
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import bounds
from ddpify.understanding.syntax import indices_of
from ddpify.understanding.values import (
    REPLICATED,
    UNKNOWN,
    Data,
    Value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def replicated_item(run: RunState, node: cst.Subscript) -> Value:
    """An item of something replicated: sharded where the index is, as in ``weights[labels]``.

    Nothing where the index has nothing of a batch.
    """
    return (
        _by_index(run, node)
        or handmade_batches.sliced(run, node)
        or _by_elements(run, node)
        or UNKNOWN
    )


def at_position(run: RunState, node: cst.Subscript) -> Value | None:
    """``table[i]`` at the position of one of this rank's rows goes by it; None for other indices.

    It is read as a number is that is computed of the position.
    """
    if run.collating:
        return None
    found = [one for index in indices_of(node) for one in run.seen(index).positions]
    return row_numbers.shifted(value(*found)) if found else None


def _by_elements(run: RunState, node: cst.Subscript) -> Value | None:
    """``table[: x.numel()]`` has an element for each of all rows, and is beside those of all."""
    counted = [
        (bound, data)
        for bound in bounds.of_slices(node)
        for data in run.seen(bound).data
        if data.placement is Placement.SUM
    ]
    for bound, data in counted:
        run.demand(bound, value(data), uses.ROWS_OF_ALL)
    return value(Data(Placement.REPLICATE, form=Layout.GATHERED)) if counted else None


def rows_of_unread(run: RunState, node: cst.Subscript) -> Value:
    """An item of something that is not understood: rows where what takes them says so."""
    by_rows = _by_gathered(run, node) or rows_by_index(run, node)
    return by_rows or handmade_batches.sliced(run, node) or UNKNOWN


def count_places(run: RunState, node: cst.Subscript) -> None:
    """Let a place in what all ranks hold, such as half the number of rows, be that of all."""
    bounds.count_sizes(run, indices_of(node))
    bounds.count_parts(run, node)


def _by_gathered(run: RunState, node: cst.Subscript) -> Value | None:
    """What positions take for the rows of all ranks; None for another index."""
    held = [(shown, atom) for shown in indices_of(node) for atom in run.seen(shown).of(Data)]
    gathered = [atom for _, atom in held if atom.form is Layout.GATHERED]
    if not gathered:
        return None
    tensor_pairs.beside_replicated(run, held)
    return value(gathered[0])


def rows_of_weights(run: RunState, node: cst.Subscript) -> Value | None:
    """The rows of a parameter that rows, or what may be a batch, pick; else None."""
    held = [
        atom
        for index in indices_of(node)
        for atom in handmade_batches.replicated_tensors(run.seen(index))
    ]
    return _by_index(run, node) or (value(*held) if held else None)


def _by_index(run: RunState, node: cst.Subscript) -> Value | None:
    """What rows, their number or their positions take; None where the index has none of them."""
    count_places(run, node)
    return _by_gathered(run, node) or rows_by_index(run, node) or at_position(run, node)


def rows_by_index(run: RunState, node: cst.Subscript) -> Value | None:
    """The rows that an index by this rank's rows, or by their number, takes; else None."""
    held = (data for _, index in operands(run, node) for data in index.data)
    shards = [data for data in held if data.placement is Placement.SHARD]
    counted = bounds.counted(run, node)
    of_all = None if shards else bounds.of_all_rows(run, node)
    if of_all is not None:
        return value(of_all)
    if counted and not shards:
        if _is_what_is_left(run, node):  # perhaps as many rows again as all ranks have
            return value(replace(counted[0].placed(Placement.REPLICATE), form=Layout.GATHERED))
        _note_slice(run, node)
    shards += counted
    if not shards:
        return None
    if all_found(run, indices_of(node)) or _counted_up(run, node):
        return REPLICATED
    rows = shards[0].placed(Placement.SHARD)
    rows = replace(rows, form=Layout.MASKED) if shards[0].ragged else rows
    return picked_dimension.among(run, node, rows)


def _counted_up(run: RunState, node: cst.Subscript) -> bool:
    """Whether ``table[torch.arange(len(x))]`` takes rows for all ranks, each one's own behind."""
    first = node.slice[0].slice
    held = run.seen(first.value).data if isinstance(first, cst.Index) else []
    ranges = [data for data in held if data.counting]
    if not ranges or run.collating or not run.module.editable:
        return False
    assert isinstance(first, cst.Index)
    run.demand(first.value, value(*ranges), uses.POSITIONS)
    return True


def all_found(run: RunState, indices_: list[cst.BaseExpression]) -> bool:
    """Whether positions at which a mask holds pick replicated rows: those of all ranks do."""
    found = [(i, d) for i in indices_ for d in run.seen(i).data if d.found_in]
    for index, data in found if not run.frames_forward() else ():
        run.demand(index, value(data), uses.ROWS_OF_ALL)
    return bool(found) and not run.frames_forward()


def _is_what_is_left(run: RunState, node: cst.Subscript) -> bool:
    """Whether ``queue[len(x):]`` leaves out as many rows, of what all ranks hold, as all have."""
    part = node.slice[0].slice
    if run.frames_forward() or run.collating or not run.module.editable:
        return False
    if not isinstance(part, cst.Slice) or part.upper is not None or len(node.slice) > 1:
        return False
    bounds.count_sizes(run, bounds.counted_in(run, part))
    return bounds.is_counted(run, part.lower)


def _note_slice(run: RunState, node: cst.Subscript) -> None:
    """Note that as many rows as a rank has are taken from what all ranks hold.

    It holds rows for the whole batch: a rank's own are not its first.
    """
    if run.frames_forward() or run.collating:
        return
    part = node.slice[0].slice
    if not isinstance(part, cst.Slice) or not bounds.counted_in(run, part):
        return  # along another dimension
    if run.module.editable and bounds.is_counted(run, part.upper):
        draw = run.facts.random.counted_slices.setdefault(node, Draw(run.site(node)))
        draw.counts = bounds.counted_in(run, part)
        current_batch.used(run, node, bounds.counted(run, node))
        return
    for data in bounds.counted(run, node):
        rows = Data(Placement.SHARD, data.loaders, form=Layout.PACKED)  # which no reduction suits
        run.demand(node, value(rows), uses.A_SLICE)
