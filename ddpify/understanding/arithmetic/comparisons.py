"""Comparisons: elementwise on rows, and a reading of anything partial."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arithmetic import lifted_rows, orders, single_samples
from ddpify.understanding.arithmetic.pair_placements import crossed
from ddpify.understanding.arithmetic.tensor_pairs import (
    Operand,
    beside_replicated,
    held_tensors,
    is_never_zero,
    mixed,
    pairs_of_all,
    place_among_all,
)
from ddpify.understanding.batching import (
    batch_rows,
    handmade_batches,
)
from ddpify.understanding.forms import Form, Layout, NumberKind
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import dimensions, relative_ranks
from ddpify.understanding.syntax import displayed
from ddpify.understanding.values import (
    REPLICATED,
    Data,
    Number,
    Value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

# What a comparison with an order or a range of a rank's rows is.
_COMPARED: dict[Form, Form] = {Layout.ORDER: Layout.TENSOR, NumberKind.RANGE: NumberKind.COMPUTED}


def compare(run: RunState, nodes: Sequence[cst.BaseExpression], values: list[Value]) -> Value:
    """What is compared with what."""
    operands = orders.as_numbers(run, *zip(nodes, values, strict=True))
    values = [one for _, one in operands]
    if any(d.form is NumberKind.SHAPE for one in values for d in one.data):
        _read_shapes(run, operands)
        return REPLICATED
    for node in nodes:
        if displayed(node) is not None:  # as (len(x), 4)
            run.demand_all(node, run.seen(node), uses.A_COMPARISON)
    shards = _rows(run, operands)
    run.lengthen(atom for one in values for atom in one.atoms)
    handmade_batches.meet(run, operands)
    if not shards:
        return _of_replicated(operands)
    tensors = held_tensors(operands)
    if beside_replicated(run, tensors):
        return value(replace(shards[0].placed(Placement.REPLICATE), form=Layout.GATHERED))
    held = [(shown, d) for shown, d in tensors if d is not None and d.placement.local]
    of_others = single_samples.meet_others(run, nodes[0], held)
    if of_others is not None:
        return of_others
    if len(shards) == 2 and crossed(run, *shards):
        return mixed(run, nodes[0], shards[0], operands)
    place_among_all(run, operands)
    compared = _compared(shards, [one for one in values if not one.data])
    return lifted_rows.noted(run, value(compared), operands)


def _read_shapes(run: RunState, operands: list[Operand]) -> None:
    """Whether shapes are equal depends on the number of rows, but for those of the same rows."""
    if _are_of_same_rows(run, [one for _, one in operands]):
        return
    for node, one in operands:
        run.demand_all(node, value(*_own_shapes(one)), uses.A_COMPARISON)


def _own_shapes(held: Value) -> list[Data]:
    return [d for d in held.data if d.form is NumberKind.SHAPE and d.placement.local]


def _are_of_same_rows(run: RunState, shapes: list[Value]) -> bool:
    """Whether all are shapes of a rank's rows, of one batch; in a forward there is no other."""
    sizes = [d for one in shapes for d in _own_shapes(one)]
    if not all(shapes) or len(sizes) < sum(len(one.atoms) for one in shapes):
        return False
    of_one_batch = len({(d.loaders, d.dim) for d in sizes}) == 1
    return run.frames_forward() or (of_one_batch and not any(d.past for d in sizes))


def _rows(run: RunState, operands: list[Operand]) -> list[Data]:
    """What is compared row by row; what ranks hold in part besides is demanded."""
    rows = []
    values = [one for _, one in operands]
    with_zero = any(one.constant() == 0 for one in values)
    own = run.frames_forward() and all(map(_counts_rows, values))  # one rank's beside its other
    for node, one in operands:
        run.demand(node, value(*one.positions), uses.A_COMPARISON)
        for data in one.data:
            if with_zero and (data.placement is Placement.COUNT or is_never_zero(run, data)):
                run.facts.sizes.shape_uses.update(data.definition_sites)  # no rank is without a row
            elif not data.placement.partial:
                rows.append(data)
            elif not own:
                run.demand(node, value(data), uses.A_COMPARISON)
    return rows


def _of_replicated(operands: list[Operand]) -> Value:
    """What all ranks hold, or what may be a batch that is made by hand."""
    by_hand = batch_rows.joined(operands)
    tensors = [d for _, d in held_tensors(operands) if d is not None]
    paired = pairs_of_all(tensors)
    if paired is not None:
        return value(paired)
    of_all = (Layout.GATHERED, Layout.PERMUTATION)
    rows_of_all = [replace(d, form=Layout.GATHERED) for d in tensors if d.form in of_all]
    return value(*rows_of_all[:1]) or by_hand or _as_large(operands)


def _as_large(operands: list[Operand]) -> Value:
    """What tensors without rows give, with its dimensions where they are known."""
    ndim = dimensions.of_values(*(one for _, one in operands))
    return REPLICATED if ndim is None else value(Number(ndim=ndim))


def _compared(shards: list[Data], plain: list[Value]) -> Data:
    """Truth values for the rows of a rank."""
    rows = [d for d in shards if d.placement is Placement.ROWS]
    first = (rows or shards)[0]
    kept = first.definition_sites if rows else first.counting
    other = shards[1] if len(shards) > 1 else None
    ndim = dimensions.of_pair(shards[0], other, list(map(dimensions.of_value, plain)))
    form = _COMPARED.get(first.form, first.form)
    numbers = all(dimensions.of_value(one) == 0 for one in plain)
    relative = relative_ranks.of_pair(shards[0], other) if numbers else None
    compared = replace(first, definition_sites=kept, ndim=ndim, form=form, boolean=True)
    return replace(compared, relative=None if ndim else relative)


def _counts_rows(one: Value) -> bool:
    """Whether a value surely is a number of a rank's rows, whatever they are rows of."""
    numbers = (
        isinstance(a, Data) and a.placement.partial and a.form is NumberKind.NUMBER
        for a in one.atoms
    )
    return bool(one) and all(numbers)
