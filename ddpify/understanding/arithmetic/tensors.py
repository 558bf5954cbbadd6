"""Arithmetic on placements: what tensor operations make of rows, means, sums and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import record, replace
from ddpify.understanding import uses
from ddpify.understanding.answers import first_answer
from ddpify.understanding.arithmetic import (
    across_samples,
    along_batch,
    booleans,
    comparisons,
    dimensions_left,
    indexed_rows,
    lifted_rows,
    pair_placements,
    picked_by_rows,
    picked_dimension,
    replicated_rows,
    several_operands,
    single_samples,
    tensor_pairs,
)
from ddpify.understanding.arithmetic.denominators import number_of_rows
from ddpify.understanding.arithmetic.one_tensor import LINEAR, indices, of_one
from ddpify.understanding.arithmetic.operation import Operation
from ddpify.understanding.arithmetic.tensor_dimensions import (
    ORDERING,
    OVER_ALL,
    PARTING,
    keeps_dimensions,
    kept_form,
)
from ddpify.understanding.arithmetic.tensor_pairs import Operand
from ddpify.understanding.batching import batch_rows, handmade_batches, row_numbers
from ddpify.understanding.forms import Layout, NumberKind
from ddpify.understanding.operators.in_place import is_in_place
from ddpify.understanding.operators.table import broadcasts
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import columns, dimensions, relative_ranks, sure_numbers, widths
from ddpify.understanding.values import (
    NO_ROWS,
    REPLICATED,
    UNKNOWN,
    Atom,
    Data,
    Instance,
    Number,
    Params,
    ReplicatedTensor,
    Tup,
    Value,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

# What brings rows together in a tensor that all ranks hold.
WRITING_BY_INDEX = frozenset(
    "index_add index_add_ index_copy index_copy_ index_fill index_fill_ index_put index_put_"
    " index_reduce index_reduce_ masked_scatter masked_scatter_ put put_ scatter scatter_"
    " scatter_add scatter_add_ scatter_reduce scatter_reduce_".split()
)
_COMPARING = frozenset("eq ne gt lt ge le not_equal greater less greater_equal less_equal".split())
_PICKING_WITHIN = ("gather", "take_along_dim", "take_along_axis")
_PICKED = (Placement.ROWS, Placement.COUPLED)

# Questions about what a tensor is, not about its values.
_OF_THE_KIND = frozenset({"is_tensor", "is_floating_point", "is_complex", "is_storage"})


def function(
    run: RunState,
    node: cst.BaseExpression,
    name: str,
    operands: list[Operand],
    kwargs: Mapping[str, Value],
    rest: Sequence[Value] = (),
) -> Value:
    """A tensor function or method by its last name; ``rest`` are the arguments after the tensor."""
    counted = row_numbers.computed_of(operands)
    if counted is not None and name not in _OF_THE_KIND:
        return counted
    made = replicated_rows.each_of_several(
        name, _function(run, node, name, operands, kwargs, rest), kwargs
    )
    if broadcasts(name) and name not in tensor_pairs.BINARY:
        made = lifted_rows.noted(run, tensor_pairs.broadcast(made, operands), operands)
    is_mask = booleans.of_function(name, (held for _, held in operands), rest, kwargs)
    return booleans.marked(made, is_mask)


@record
class _Call:
    """A call of a tensor function.

    Attributes:
        name: Its last name.
        operands: The tensors that it takes, and numbers that it calculates with.
        data: Of these, what ranks hold in part.
        rest: The arguments after the tensor.
    """

    run: RunState
    node: cst.BaseExpression
    name: str
    operands: list[Operand]
    data: list[tuple[cst.BaseExpression, Data]]
    kwargs: Mapping[str, Value]
    rest: Sequence[Value]


def _function(
    run: RunState,
    node: cst.BaseExpression,
    name: str,
    operands: list[Operand],
    kwargs: Mapping[str, Value],
    rest: Sequence[Value],
) -> Value:
    if name in _OF_THE_KIND:
        return REPLICATED
    if name in ("max", "min") and _is_of_two(operands, rest):
        name = f"{name}imum"
    elif name in ("max", "min") and _is_perhaps_of_two(run, operands, rest):
        return _perhaps_of_two(run, node, operands)
    if name in ("to", "type_as"):  # of another tensor they take its kind alone
        operands = operands[:1]
    of_all = lifted_rows.asked(run, name, [d for _, v in operands for d in v.data], rest, kwargs)
    if of_all is not None:
        return of_all
    handmade_batches.meet(run, operands)
    if is_in_place(name):
        _keep_own_rows(run, operands)
    if name in tensor_pairs.BINARY and len(operands) > 1:
        return _binary(run, node, name, operands)
    if name in _COMPARING:
        return comparisons.compare(run, [n for n, _ in operands], [v for _, v in operands])
    if name == "expand_as" and len(operands) > 1:
        spread = _spread_over_rows(run, *operands[:2])
        if spread is not None:
            return spread
    if name in replicated_rows.CHOOSING:
        _take_whole_numbers(run, name, operands[1:])
        operands = operands[:1]
    operands = [*operands[:1], *(one for one in operands[1:] if not _is_a_shape(one[1]))]
    data = [(n, d) for n, v in operands for d in v.data]
    call = _Call(run, node, name, operands, data, kwargs, rest)
    known = first_answer(_OF_ANY, call)
    if known is not None:
        return known
    alone = [(n, d) for n, d in data if d.dim == NO_ROWS]
    call = replace(call, data=_without_indices(call, alone or data))
    known = first_answer(_OF_ROWS, call)
    return _of_each(call) if known is None else known


def _spread_over_rows(run: RunState, part: Operand, like: Operand) -> Value | None:
    """``x.mean(0).expand_as(x)``: that of all samples for each row; None for other operands."""
    rows = [data for data in like[1].data if data.placement is Placement.SHARD]
    parts = [data for data in part[1].data if data.placement.partial]
    if not parts or not rows or len(rows) < len(like[1].atoms):
        return None
    run.demand(part[0], value(*parts), uses.ARITHMETIC)
    return value(*(replace(data, definition_sites=frozenset()) for data in rows))


def _binary(run: RunState, node: cst.BaseExpression, name: str, operands: list[Operand]) -> Value:
    """An operator of two tensors that is written as a function."""
    made = tensor_pairs.binary(run, node, tensor_pairs.BINARY[name], operands[0], operands[1])
    known = dimensions.OF_MATRICES.get(name, 0)
    return dimensions_left.noted(made, known, number=False) if known else made


# ---------------------------------------------------------------------- rules for operands
def _beside_other_samples(call: _Call) -> Value | None:
    """One sample beside others."""
    return single_samples.meet_others(call.run, call.node, call.data)


def _of_replicated(call: _Call) -> Value | None:
    if call.data:
        return None
    return replicated_rows.on_replicated(
        call.run, call.node, call.name, call.operands, call.rest, call.kwargs
    )


def _by_index(call: _Call) -> Value | None:
    """Rows that are brought together in a tensor that all ranks hold."""
    node, operands = call.node, call.operands
    if call.name not in WRITING_BY_INDEX:
        return None
    into = not operands[0][1].data or several_operands.place(node, operands, operands[0][0])
    return _written_by_index(call.run, node, operands) if into else None


def _beside_replicated(call: _Call) -> Value | None:
    """Rows beside those of all ranks; other positions are placed among them."""
    held = tensor_pairs.held_tensors(call.operands)
    if call.name in _PICKING_WITHIN:  # by an index with a row for each of all samples
        held = [(shown, d and _as_rows_of_all(d)) for shown, d in held]
    if tensor_pairs.beside_replicated(call.run, held):
        first = _first(call)
        return value(replace(first.placed(Placement.REPLICATE), form=Layout.GATHERED))
    tensor_pairs.place_among_all(call.run, call.operands)
    return None


def _as_rows_of_all(data: Data) -> Data:
    """An order of all samples, taken for a tensor with a row for each of them."""
    return replace(data, form=Layout.GATHERED) if data.form is Layout.PERMUTATION else data


def _first(call: _Call) -> Data:
    """The first of what ranks hold in part; a single sample, where there is one."""
    return next((d for _, d in call.data if d.dim == NO_ROWS), call.data[0][1])


def _into_another(call: _Call) -> Value | None:
    """What is written into another tensor; all that stays is used on rows."""
    if "out" in call.kwargs:
        return _written_out(call.run, call.operands, call.kwargs["out"])
    held = tensor_pairs.held_tensors(call.operands)
    tensor_pairs.note_used_on_rows(call.run, [d for _, d in held])
    return None


def _ordered(call: _Call) -> Value | None:
    return _in_given_order(call.run, call.node, call.name, call.operands[0], call.rest, call.kwargs)


_OF_ANY = (
    _beside_other_samples,
    _of_replicated,
    _by_index,
    _beside_replicated,
    _into_another,
    _ordered,
)
"""Rules for what stands beside rows; the first that says something is right."""


# ---------------------------------------------------------------------- rules for rows
def _without_indices(
    call: _Call, data: list[tuple[cst.BaseExpression, Data]]
) -> list[tuple[cst.BaseExpression, Data]]:
    """The rows from which ``index_select`` takes some; others as they are."""
    if call.name != "index_select" or len({id(operand) for operand, _ in data}) != 1:
        return data
    return [(n, d) for n, d in data if d not in indices(call.rest, call.kwargs)]


def _selected(call: _Call) -> Value | None:
    """What rows select of a tensor that all ranks hold."""
    if call.data:
        return None
    return _selected_by(call.run, call.operands, call.rest, call.kwargs)


def _along(call: _Call) -> Value | None:
    return along_batch.of_all_ranks(
        call.run, call.node, call.name, call.operands, call.rest, call.kwargs
    )


def _of_all_ranks(call: _Call) -> Value | None:
    return several_operands.of_all_ranks(
        call.run, call.node, call.name, call.operands, call.rest, call.kwargs
    )


def _crosswise(call: _Call) -> Value | None:
    """Each of the rows beside all."""
    held = [one.data for _, one in call.operands]
    if not broadcasts(call.name) or not _meet_crosswise(call.run, held):
        return None
    return tensor_pairs.mixed(call.run, call.node, call.data[0][1], call.operands)


def _with_picked(call: _Call) -> Value | None:
    """Rows beside those picked out of some."""
    pair = _beside_picked(call.operands) if broadcasts(call.name) else None
    return None if pair is None else tensor_pairs.binary(call.run, call.node, "*", *pair)


_OF_ROWS = (_selected, _along, _of_all_ranks, _crosswise, _with_picked)
"""Rules for rows of several tensors; where none applies, each gives what it does alone."""


def _of_each(call: _Call) -> Value:
    """What a function makes of each of its operands."""
    results = [_of_one(call, operand, one) for operand, one in call.data]
    followed = [r for r in results if any(isinstance(a, (Data, Instance, Tup)) for a in r.atoms)]
    if not followed:
        return REPLICATED
    coupled_ = [r for r in followed if any(d.placement in _PICKED for d in r.data)]
    if coupled_ and len(call.data) > 1:
        return join(*coupled_)  # each element of the result is made of all operands
    first = call.operands[0][1]
    if len(call.data) == len(first.data):
        held = [a for a in first.atoms if isinstance(a, Data) and a.reduced]
        followed.append(value(*(a for a in held if call.name in LINEAR or a.definition_sites)))
    return join(*followed)


def _of_one(call: _Call, operand: cst.BaseExpression, one: Data) -> Value:
    name, rest, kwargs = call.name, call.rest, call.kwargs
    made = of_one(Operation(call.run, call.node, name, operand, one, rest, kwargs))
    if one.placement is not Placement.ROWS:  # which are global where they are picked, or never
        made = _named_by(operand, name, made)
    if one.placement is Placement.SHARD:
        made = _counted_by(call.node, operand, made)
    kept = keeps_dimensions(name, rest, kwargs)
    made = columns.noted(made, name, one, rest, kwargs, kept=kept)
    if name in widths.PRODUCTS:
        width = widths.of_product(call.node, call.run.module)
        made = columns.marked(made, columns.of_product(one, None, width))
    made = dimensions_left.after(made, name, one.ndim, rest, kwargs)
    counted = relative_ranks.counted_from(one, call.node)
    made = relative_ranks.moved(made, counted, dimensions_left.added(name, counted, rest, kwargs))
    return relative_ranks.shortened(made, call.node) if name == "squeeze" else made


def _beside_picked(operands: list[Operand]) -> tuple[Operand, Operand] | None:
    """An operand with a rank's rows, and one with rows picked out of some, which they meet."""
    rows = [one for one in operands if _are_all(one[1], Placement.SHARD)]
    picked_ = [one for one in operands if _are_all(one[1], Placement.ROWS)]
    return (rows[0], picked_[0]) if rows and picked_ else None


def _are_all(held: Value, placement: Placement) -> bool:
    return bool(held.data) and all(data.placement is placement for data in held.data)


def _is_of_two(operands: list[Operand], rest: Sequence[Value]) -> bool:
    """Whether ``max(x, y)`` takes the larger of two tensors: ``y`` is no dimension."""
    if len(operands) < 2 or not rest:
        return False
    computed = isinstance(operands[1][0], cst.Call) and isinstance(
        operands[1][0].func, cst.Attribute
    )
    return any(
        (isinstance(atom, (Data, Params, ReplicatedTensor)) and not _is_a_count(atom))
        or (isinstance(atom, Number) and (computed or bool(atom.ndim)))
        for atom in rest[0].atoms
    )


def _is_perhaps_of_two(run: RunState, operands: list[Operand], rest: Sequence[Value]) -> bool:
    """Whether nothing tells if ``y``, in ``max(x, y)``, is a tensor or a dimension."""
    if len(operands) < 2 or not rest or rest[0].constant() is not ...:
        return False
    if not any(one.placement.local for one in operands[0][1].data):
        return False
    return not rest[0].data and not sure_numbers.is_number(run, operands[1][0])


def _perhaps_of_two(run: RunState, node: cst.BaseExpression, operands: list[Operand]) -> Value:
    """What that gives: of the rows of all ranks it is the same either way."""
    shown, held = operands[0]
    if run.frames_forward() or run.collating:
        return across_samples.of_all_rows(run, shown, held.data[0])
    return tensor_pairs.mixed(run, node, held.data[0], operands[:1])


def _is_a_shape(held: Value) -> bool:
    """Whether an argument is the sizes of a tensor, which no operator computes with."""
    return bool(held.data) and all(data.form is NumberKind.SHAPE for data in held.data)


def _is_a_count(atom: Atom) -> bool:
    return isinstance(atom, Data) and atom.placement is Placement.COUNT


def _written_by_index(run: RunState, node: cst.BaseExpression, operands: list[Operand]) -> Value:
    """What rows make of a tensor that all ranks hold: each of them may be any of its own."""
    shown = [part for one in operands for part in tensor_pairs.displayed_parts(run, one)]
    rows = [(part, held) for part, held in shown if held.data]
    if run.frames_forward():
        return across_samples.coupled_operands(run, node, rows, rows=False)
    return tensor_pairs.mixed(run, node, rows[0][1].data[0], rows)


def _written_out(run: RunState, operands: list[Operand], out: Value) -> Value:
    """``torch.sum(x, 0, out=y)``: all ranks write the same into what all of them hold."""
    # What comes of a batch may be a view of it, or a copy of what all ranks hold.
    into_batch = any(
        isinstance(atom, Data) and atom.form is not Layout.GATHERED for atom in out.atoms
    )
    for shown, held in operands:
        for data in held.data:
            rows = (
                replace(data, definition_sites=frozenset(), form=Layout.PACKED)
                if into_batch
                else data
            )
            run.demand(shown, value(rows), uses.A_ROW if into_batch else uses.A_CHANGE)
    first = next(data for _, held in operands for data in held.data)
    return value(replace(first.placed(Placement.REPLICATE), form=Layout.GATHERED))


def _in_given_order(
    run: RunState,
    node: cst.BaseExpression,
    name: str,
    rows: Operand,
    rest: Sequence[Value],
    kwargs: Mapping[str, Value],
) -> Value | None:
    """``index_select(x, 0, order)`` by an order of all samples is ``x[order]``; None for others."""
    index = kwargs.get("index") or (rest[1] if len(rest) > 1 else UNKNOWN)
    orders = any(isinstance(a, Data) and a.form is Layout.PERMUTATION for a in index.atoms)
    own = [
        a for a in index.data if a.form is Layout.ORDER and a.definition_sites
    ]  # of rows or within them
    if name != "index_select" or not (orders or (own and run.frames_forward())):
        return None
    along = (kwargs.get("dim") or (rest[0] if rest else UNKNOWN)).constant()
    held = [d for d in rows[1].data if d.form is not Layout.PERMUTATION and d.dim == along]
    for order in own if held else ():
        of_all = Data(Placement.ROWS, order.loaders, order.definition_sites)
        run.demand(node, value(of_all), uses.AN_INDEX)
    return value(indexed_rows.regrouped(run, node, rows[0], held[0])) if held else None


def _selected_by(
    run: RunState, operands: list[Operand], rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value:
    """What rows select of what all ranks hold: one for each of them."""
    if picked_by_rows.all_found(run, [n for n, _ in operands]) or _by_places(run, operands):
        return REPLICATED
    along = (kwargs.get("dim") or (rest[0] if rest else UNKNOWN)).constant()
    found = indices(rest, kwargs)
    if not isinstance(along, int) or along < 0:
        for shown, held in operands:
            picked_dimension.of_all(run, shown, [one for one in held.data if one in found])
        return value(Data(Placement.REPLICATE, form=Layout.GATHERED, opaque=True))
    ndim = dimensions.of_value(run.seen(operands[0][0])) or 0
    return value(
        *(
            replace(
                one,
                dim=along,
                ndim=ndim,
                one_each=ndim <= along + 1,
                definition_sites=frozenset(),
                form=kept_form(one),
            )
            for one in found
        )
    )


def _by_places(run: RunState, operands: list[Operand]) -> bool:
    """Whether places in the batch select, as ``arange(len(x))`` does: those of all samples do."""
    counted = [(shown, held) for shown, held in operands if any(d.counting for d in held.data)]
    for shown, held in counted if run.module.editable and not run.collating else ():
        run.demand(shown, held, uses.POSITIONS)
    return bool(counted) and run.module.editable and not run.collating


def _take_whole_numbers(run: RunState, name: str, numbers: list[Operand]) -> None:
    """How many are asked for depends on the whole batch where they are chosen from all of it."""
    for node, held in numbers:
        counts = [d for d in held.data if d.placement is Placement.COUNT]
        if counts:
            run.demand(node, value(*counts), f"{name}()")


def _keep_own_rows(run: RunState, operands: list[Operand]) -> None:
    """What is changed in place keeps its placement: rows at one position are those of all ranks.

    Those of a single sample may change what is of the same one.
    """
    changed = operands[0][1].data if operands else []
    for shown, held in operands[1:]:
        others = (
            d
            for d in held.data
            if not changed or not all(_is_of_the_same(d, one) for one in changed)
        )
        picked = (data for data in others if data.placement in _PICKED)
        run.demand(shown, value(*picked), uses.A_CHANGE)


def _is_of_the_same(one: Data, other: Data) -> bool:
    """Whether both surely are of the same single sample."""
    single = one.placement is other.placement is Placement.ROWS and bool(one.taken_by)
    return (
        single and one.taken_by == other.taken_by and one.definition_sites == other.definition_sites
    )


def _meet_crosswise(run: RunState, operands: list[list[Data]]) -> bool:
    """Whether the rows of two operands surely lie along different dimensions."""
    met = (list(product(*both)) for both in combinations(operands, 2))
    return any(
        pairs and all(pair_placements.crossed(run, *pair) for pair in pairs) for pairs in met
    )


def _named_by(operand: cst.BaseExpression, name: str, result: Value) -> Value:
    """What couples rows without a name is resolved by gathering the operand.

    So are extremes over all rows and their order: the rows themselves may stay where they are.
    """
    atoms = [
        replace(a, names=frozenset({operand}))
        if isinstance(a, Data)
        and a.placement is Placement.COUPLED
        and (name in (*OVER_ALL, *ORDERING, *PARTING, "unique") or not a.names)
        else a
        for a in result.atoms
    ]
    return join(value(*atoms)) if atoms else UNKNOWN


def _counted_by(node: cst.BaseExpression, operand: cst.BaseExpression, result: Value) -> Value:
    """A mean over the rows that a mask leaves is weighted by their number, where it is taken."""
    uncounted = [a for a in result.data if a.placement is Placement.WEIGHTED and not a.counted]
    if not uncounted:
        return result
    code = (number_of_rows(operand),)
    counted: dict[Atom, Atom] = {
        a: replace(a, counted=code, definition_sites=frozenset({node})) for a in uncounted
    }
    return value(*(counted.get(a, a) for a in result.atoms))


def on_batches(
    run: RunState,
    name: str,
    operands: list[Operand],
    rest: Sequence[Value],
    kwargs: Mapping[str, Value],
) -> Value:
    """The same where nothing is split yet, and some of it may be a batch made by hand."""
    results = [
        batch_rows.function(run, name, atom, rest, kwargs)
        for atom in next(
            handmade_batches.replicated_tensors(held)
            for _, held in operands
            if handmade_batches.replicated_tensors(held)
        )
    ]
    return join(REPLICATED, *results)
