"""Tensors under each other that are parted again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arithmetic import (
    tensor_pairs,
)
from ddpify.understanding.batching import (
    batch_sizes,
)
from ddpify.understanding.forms import Layout, NumberKind
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import tensor_sizes
from ddpify.understanding.syntax import displayed
from ddpify.understanding.values import (
    Data,
    Value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def pieces(run: RunState, rows: Value, sizes: Value) -> Value:
    """What ``split(len(batch))`` makes of tensors under each other: one of them each.

    What was taken for picked rows are several tensors of rows then, in a list that a loader gave.
    A part of that number, as half of it, cuts the rows of all ranks.
    """
    if any(data.form is NumberKind.ROUNDED for data in tensor_sizes.counts(sizes)):
        return value(*(replace(one.placed(Placement.COUPLED), dim=one.dim) for one in rows.data))
    run.facts.sizes.shape_uses.update(
        b for data in tensor_sizes.counts(sizes) for b in data.definition_sites
    )
    return value(*(_piece(one) for one in rows.data))


def _piece(rows: Data) -> Data:
    whole = rows.placement is Placement.SHARD  # an item of what it is parted into has rows
    form = Layout.MASKED if rows.ragged else Layout.PIECES if whole else Layout.TENSOR
    return replace(rows, placement=Placement.SHARD, definition_sites=frozenset(), form=form)


def cut_by_global_batches(
    run: RunState, cut: tensor_pairs.Operand, length: tensor_pairs.Operand
) -> None:
    """Demand what cannot be had: tensors under each other are cut by a batch's size.

    A rank has fewer rows of each of them.
    """
    sizes = displayed(length[0]) or [length[0]]
    for data in cut[1].data if any(batch_sizes.names_size(run, one) for one in sizes) else ():
        if data.form is Layout.STACKED and data.dim == 0:
            unreducible = replace(
                data, definition_sites=frozenset(), names=frozenset(), form=Layout.PACKED
            )
            run.demand(cut[0], value(unreducible), uses.A_CUT)
