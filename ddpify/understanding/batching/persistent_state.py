"""Tensors that live longer than a batch, and are written in place from its rows.

Memory banks, queues of keys, centres, tables of counts: one process writes the rows of the whole
batch into them, and each rank would write its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import uses
from ddpify.understanding.arguments import (
    Keywords,
    argument_of,
    argument_pairs,
    local_data,
)
from ddpify.understanding.batching import in_place_writes, per_sample_lists, sample_tables
from ddpify.understanding.forms import SEVERAL_TENSORS, Layout, NumberKind
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import bounds
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import displayed
from ddpify.understanding.values import (
    Class,
    Const,
    Data,
    Instance,
    Namespace,
    Number,
    Params,
    ReplicatedTensor,
    Value,
    join,
    may_be_integer,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


_REDUCIBLE = (Placement.MEAN, Placement.SUM, Placement.WEIGHTED, Placement.COUNT)
_NUMBERS = (NumberKind.NUMBER, NumberKind.MULTIPLE)
_OF_PARAMETERS = ("data", "grad")
_SCALARS = (Placement.MEAN, Placement.SUM)
_BY_INDEX = frozenset("index_copy_ index_add_ index_put_ put_ masked_scatter_".split())
_ADDING = (_BY_INDEX - {"index_copy_"}) | {"index_reduce_", "scatter_add_", "scatter_reduce_"}

Operand = tuple[cst.BaseExpression, Value]


def method(run: RunState, node: cst.Call, args: list[Value], kwargs: Keywords) -> None:
    """A call such as ``self.memory.index_copy_(0, labels, rows)``."""
    if not isinstance(node.func, cst.Attribute) or not run.in_batch_loop():
        return
    if run.module.is_unused(node):
        sample_tables.item(run, node.func.value)  # table[label].append(...)
    if node.func.attr.value in per_sample_lists.GROWING:
        sample_tables.grown(run, node.func.value)
    if not in_place_writes.is_in_place(node):
        return
    name, target = node.func.attr.value, node.func.value
    given = argument_pairs(node, args, kwargs)
    local = next((data for _, one in given for data in local_data(one)), None)
    if _at_places_of_all(run, target, given):
        return
    if local is not None and name in in_place_writes.RESIZING:
        written = name == "set_" or _is_written_first(run, node, target)
        _holds_rows(run, target, local, written=written)
    elif local is not None:
        by_index = name in _BY_INDEX and not isinstance(target, cst.Subscript)
        cut = _is_as_long_as_the_batch(run, target)
        _write(run, target, given, by_index=by_index or cut)
        _fill(run, target, given, by_index=cut or name in _ADDING)


def changed(run: RunState, held: Value, given: list[Operand]) -> bool:
    """What changes a tensor that all ranks hold, in whatever way it is called: ``f = t.add_``.

    It is what all ranks hold, or is asked to be; whether the tensor is one.
    """
    if not run.in_batch_loop() or not _is_replicated(run, held):
        return False
    for shown, one in given:
        for data in local_data(one):
            _demand(run, shown, data, by_index=True)
    return True


def _is_written_first(run: RunState, node: cst.Call, target: cst.BaseExpression) -> bool:
    """Whether a tensor that is resized is written before it is read.

    It is not in ``torch.arange(32).resize_(x.shape)``, it is in ``noise.resize_(n, 8).normal_()``.
    """
    tree = run.module.structure
    if not run.module.is_unused(node):
        above = tree.parents.get(node)
        call = tree.parents.get(above) if isinstance(above, cst.Attribute) else None
        return call is not None and in_place_writes.is_in_place(call)
    around = tree.inside(tree.function(node) or tree.tree, type(target))
    later = (
        one for one in around if one.deep_equals(target) and tree.order[one] > tree.order[node]
    )
    following = min(
        (one for one in later if one is not target), key=tree.order.__getitem__, default=None
    )
    return following is None or in_place_writes.is_written(tree, following)


def _holds_rows(run: RunState, target: cst.BaseExpression, local: Data, *, written: bool) -> None:
    """A tensor gets the size of this rank's rows, to hold them: it keeps no others.

    That of its ``data`` is another's: the tensor keeps its own size, and what it held behind them.
    """
    of_another = isinstance(target, cst.Attribute) and target.attr.value == "data"
    if of_another or not written:
        unreducible = Data(Placement.SHARD, local.loaders, form=Layout.PACKED)
        run.demand(target, value(unreducible), uses.A_KEPT_TENSOR)
        return
    kept = next(in_place_writes.holders(target), None)
    rows = value(local.placed(Placement.SHARD))
    if isinstance(kept, cst.Name):
        run.bind(kept.value, rows)
    elif kept is not None:
        for owner in run.seen(kept.value).of(Instance):
            run.put(owner, kept.attr.value, rows)


def item(run: RunState, target: cst.Subscript, shown: cst.BaseExpression, new: Value) -> None:
    """An assignment such as ``memory[labels] = rows``, or ``seen[0, start:end] = rows``."""
    indices = [e.slice.value for e in target.slice if isinstance(e.slice, cst.Index)]
    rows = [(index, _of_index(run.seen(index))) for index in indices]
    if not run.in_batch_loop():
        _fill(run, target.value, [(shown, new)], by_index=True)
        return
    if _at_places_of_all(run, target.value, [*rows, (shown, new)]):
        return
    place = _place_of_rows(run, target, next((data.dim for data in local_data(new)), 0))
    if isinstance(place, cst.Slice) and _is_kept(run, target.value):
        bounds.count_sizes(run, bounds.written(place))
    _write(run, target.value, [*rows, (shown, new)], by_index=place is not None)
    indexed = any(data.placement is Placement.SHARD for _, one in rows for data in one.data)
    indexed |= _is_as_long_as_the_batch(run, target)
    _fill(run, target.value, [*rows, (shown, new)], by_index=indexed)


def _of_index(held: Value) -> Value:
    """What an index picks by: a list of the labels of a rank's rows picks as a tensor of them.

    One that holds some of them, or more than one for each, cannot be put together from the ranks'.
    """
    rows = per_sample_lists.rows(held)
    of_lists = [d for a in rows.of(Instance) for d in local_data(value(a))]
    mixed = (Data(Placement.SHARD, d.loaders, form=Layout.PACKED) for d in of_lists)
    return join(rows, value(*mixed))


def _is_as_long_as_the_batch(run: RunState, target: cst.BaseExpression) -> bool:
    """Whether ``table[: len(x)]`` takes as many rows of what all ranks hold as a batch has."""
    sizes: list[cst.BaseExpression] = []
    while not isinstance(target, cst.Name):
        if isinstance(target, cst.Subscript):
            slices = [one.slice for one in target.slice if isinstance(one.slice, cst.Slice)]
            sizes += [bound for one in slices for bound in bounds.written(one)]
        elif isinstance(target, cst.Call):
            sizes += [one.value for one in target.args]
            target = target.func
        if not isinstance(target, (cst.Subscript, cst.Attribute)):
            break
        target = target.value
    counted = [(one, _numbers_of_rows(run, one)) for one in sizes]
    if not any(held for _, held in counted) or not _is_replicated(run, run.seen(target)):
        return False
    bounds.count_sizes(run, sizes)
    for one, held in counted:
        run.demand(one, value(*(d for d in held if d.placement is Placement.SUM)), uses.ROWS_OF_ALL)
    return True


def _numbers_of_rows(run: RunState, size: cst.BaseExpression) -> list[Data]:
    """The numbers of a rank's rows, or of their elements, that a size is computed of."""
    held = [
        data
        for part in walk(size)
        if isinstance(part, cst.BaseExpression)
        for data in run.seen(part).data
    ]
    return [
        d
        for d in held
        if d.placement is Placement.COUNT or (d.placement is Placement.SUM and d.form in _NUMBERS)
    ]


def _at_places_of_all(run: RunState, target: cst.BaseExpression, given: list[Operand]) -> bool:
    """What is written at a permutation's places, as the way back from it is, is of all rows."""
    if not any(d.form is Layout.PERMUTATION for _, one in given for d in one.data):
        return False
    for shown, one in [(target, run.eval(target)), *given]:
        for data in one.data:
            if data.form is not Layout.PERMUTATION:
                run.demand(shown, value(data), uses.ROWS_OF_ALL)
    return True


def _place_of_rows(run: RunState, target: cst.Subscript, dim: int) -> cst.BaseSlice | None:
    """What says which rows are written, behind numbers that pick a part; None if that is unclear.

    Other dimensions are taken whole, or at one number. Where some are taken whole before it, they
    are as many as come before the rows of what is written, which lie along ``dim``.
    """
    if not isinstance(target.value, (cst.Name, cst.Attribute)):
        return None
    parts = [element.slice for element in target.slice]
    placing = [part for part in parts if not (_is_whole_slice(part) or _is_number(run, part))]
    if not placing:
        return parts[0] if all(map(_is_whole_slice, parts[1:])) else None
    ahead = sum(map(_is_whole_slice, parts[: parts.index(placing[0])]))
    return placing[0] if len(placing) == 1 and ahead in (0, dim) else None


def _is_whole_slice(part: cst.BaseSlice) -> bool:
    return isinstance(part, cst.Slice) and not bounds.written(part) and part.step is None


def _is_number(run: RunState, part: cst.BaseSlice) -> bool:
    held = run.seen(part.value).atoms if isinstance(part, cst.Index) else ()
    return bool(held) and all(map(may_be_integer, held))


def buffer(
    run: RunState,
    target: cst.Attribute,
    shown: cst.BaseExpression,
    new: Value,
    *,
    added: bool,
) -> None:
    """An update such as ``self.centre = 0.9 * self.centre + 0.1 * rows.mean(0)``.

    What is made anew from the rows, as a mask of their size is, keeps nothing.
    """
    owners, name = run.seen(target.value).of(Instance), target.attr.value
    models = [owner for owner in owners if run.is_model(owner)]
    registered = any((owner, name) in run.facts.buffers for owner in models)
    if not models or not run.in_batch_loop():
        return
    parts = [n for n in walk(shown) if isinstance(n, cst.BaseExpression)]
    mixed = [d for n in parts for d in run.seen(n).data if d.placement is Placement.COUPLED]
    again = added or any(n.deep_equals(target) for n in parts if isinstance(n, cst.Attribute))
    # Another attribute may well hold states of the rows; a sum or a mean of them is none.
    kept = [d for d in (*new.data, *mixed) if registered or d.placement in _SCALARS]
    for data in kept if again else ():
        _demand(run, shown, data, by_index=False)


def is_of_parameters(run: RunState, shown: cst.BaseExpression) -> bool:
    """Whether this is a model's parameters or one of them, as ``layer.weight``, or its ``grad``."""
    if isinstance(shown, cst.Attribute) and shown.attr.value in _OF_PARAMETERS:
        return is_of_parameters(run, shown.value)
    return any(
        isinstance(a, Params) or (isinstance(a, Instance) and run.is_model(a))
        for a in run.seen(shown).atoms
    )


def parameter(
    run: RunState,
    owner: cst.BaseExpression,
    name: str,
    shown: cst.BaseExpression,
    new: Value,
) -> None:
    """``layer.bias.data = rows.mean(0)``, or ``grad``: all ranks' models hold the same."""
    if name in _OF_PARAMETERS and is_of_parameters(run, owner):
        run.demand_held(shown, new, uses.A_KEPT_COLLECTION)


def _write(
    run: RunState, target: cst.BaseExpression, given: list[Operand], *, by_index: bool
) -> None:
    if not _is_kept(run, target):
        return
    for shown, one in (part for operand in given for part in _parts(run, *operand)):
        for data in local_data(one):
            _demand(run, shown, data, by_index=by_index)


def _fill(
    run: RunState, target: cst.BaseExpression, given: list[Operand], *, by_index: bool
) -> None:
    """What is made for this batch alone, as means by class, is filled from all its rows."""
    kept = next(in_place_writes.holders(target), None)
    if not _is_whole(run, kept, target):
        return
    if kept is not None and run.in_batch_loop() and _outlives_batch(run, kept):
        return
    parts = [part for shown, one in given for part in _parts(run, shown, one)]
    for shown, one in parts:
        for data in one.data:
            rows = data.placement is Placement.SHARD and by_index
            if data.placement in _REDUCIBLE or rows or _is_picked(data):
                run.demand(shown, value(data), uses.A_TABLE)


def _is_picked(data: Data) -> bool:
    """Whether these are samples of the batch by their positions."""
    return data.placement is Placement.ROWS and bool(data.definition_sites)


def _parts(run: RunState, shown: cst.BaseExpression, one: Value) -> list[Operand]:
    """An operand, or each part of one that is shown as a tuple or list."""
    parts = displayed(shown)
    return [(shown, one)] if parts is None else [(part, run.seen(part)) for part in parts]


def _is_kept(run: RunState, target: cst.BaseExpression) -> bool:
    """Whether what is written is a tensor that all ranks hold, from batch to batch."""
    kept = next(in_place_writes.holders(target), None)
    return kept is not None and _outlives_batch(run, kept) and _is_whole(run, kept, target)


def _is_whole(
    run: RunState, kept: cst.Name | cst.Attribute | None, target: cst.BaseExpression
) -> bool:
    """Whether all ranks hold what is written, which may be an item of a collection."""
    held = [run.eval(kept)] if kept is not None else []
    return any(_is_replicated(run, one) for one in (*held, run.seen(target)))


def _demand(run: RunState, shown: cst.BaseExpression, data: Data, *, by_index: bool) -> None:
    """Let what is written be that of the whole batch, as far as that can be had here."""
    rows = (by_index or _is_picked(data)) and data.form not in (*SEVERAL_TENSORS, NumberKind.SHAPE)
    if data.placement not in _REDUCIBLE and not rows:
        data = Data(Placement.SHARD, data.loaders, form=Layout.PACKED)  # which no reduction suits
    run.demand(shown, value(data), uses.A_KEPT_TENSOR)


def _is_replicated(run: RunState, held: Value) -> bool:
    """Whether a tensor, or a layer's parameter, is the same on all ranks."""
    return bool(held.atoms) and all(
        isinstance(a, (Number, Const, ReplicatedTensor, Params))
        or (isinstance(a, Instance) and run.is_model(a) and isinstance(a.type, str))
        or (isinstance(a, Data) and not a.placement.local)
        for a in held.atoms
    )


def _is_handed_in(run: RunState, name: str, at: int) -> bool:
    """Whether a function got a tensor from a caller that had it before the current batch."""
    frame, caller = run.frames[at], run.frames[at - 1]
    given = argument_of(frame, name)
    if at == 0 or not isinstance(given, cst.Name):
        return False
    loops = [loop for loop in caller.loops if loop.takes_batches]
    if loops or given.value not in caller.scope.names:
        return not any(run.is_made_in_round(given.value, loop) for loop in loops[-1:])
    return _is_handed_in(run, given.value, at - 1)


def _outlives_batch(run: RunState, kept: cst.Name | cst.Attribute) -> bool:
    """Whether a tensor was there before the current batch, as far as is known."""
    if isinstance(kept, cst.Attribute):
        owners = run.seen(kept.value).atoms
        return any(
            isinstance(one, (Namespace, Class)) or (isinstance(one, Instance) and run.is_older(one))
            for one in owners
        )
    if kept.value in run.frame.scope.names and kept.value not in run.frame.scope.shared:
        return run.outlives_batch(kept) or _is_handed_in(run, kept.value, len(run.frames) - 1)
    loops = [loop for frame in run.frames for loop in frame.loops]
    return not any(run.is_made_in_round(kept.value, loop) for loop in loops)
