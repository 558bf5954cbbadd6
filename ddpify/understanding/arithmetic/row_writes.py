"""Writes into the rows of a tensor: ``z[mask] = 0.0`` into a rank's own, ``z[0] = 0.0`` into one.

Only masks, and positions that count a rank's own rows, are known to write into those. Any other
index may mean a row of the global batch: then each rank writes into the rows of all ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arithmetic import (
    indexed_rows,
    loop_indices,
    made_rows,
    taken_rows,
    tensor_pairs,
)
from ddpify.understanding.arithmetic.index_kinds import index_kind, left_open
from ddpify.understanding.batching import earlier_samples, per_sample_lists
from ddpify.understanding.forms import Layout, NumberKind
from ddpify.understanding.operators.rules import Rule
from ddpify.understanding.operators.table import rule_of
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import bounds
from ddpify.understanding.syntax import code_of, displayed, indices_of, names_of
from ddpify.understanding.values import NO_ROWS, Atom, Data, Tup, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_COMPUTING = (Rule.ELEMENTWISE, Rule.MIXING, Rule.COUPLING)
_MAKING = frozenset(
    "arange copy cumprod cumsum empty empty_like eye flip full full_like new_empty new_full"
    " new_ones new_zeros normalize ones ones_like one_hot rand rand_like randn randn_like repeat"
    " roll softmax log_softmax stack tile zeros zeros_like cat concat concatenate tolist"
    # drawn anew
    " bernoulli beta binomial choice exponential gamma integers multinomial normal permutation"
    " poisson randint randint_like random random_sample randperm rsample sample standard_normal"
    " uniform".split()
)
# What these give may show the elements of what they are given.
PERHAPS_VIEWS = frozenset(
    "bfloat16 bool byte conj contiguous cpu cuda data detach diagonal double float half imag int"
    " long numpy positive real resolve_conj resolve_neg short to type type_as".split()
)


def write(run: RunState, target: cst.Subscript, owner: Value, new: Value) -> None:
    """``owner[...] = new``."""
    if run.collating:
        _write_together(run, target, owner)
        return
    _write_whole(run, target, owner, new)
    rows = [data for data in owner.data if _has_rows(data)]
    indexed_rows.ask_for_others(run, target, rows)
    sliced = any(isinstance(one.slice, cst.Slice) for one in target.slice)
    longer = sliced and any(data.listed or _has_several(data) for data in rows)
    own = all(is_at_own_rows(run, target, data) for data in rows) and not longer
    others = any(map(_are_of_all_ranks, new.atoms)) or _are_in_two_orders(run, target, rows)
    others = others or any(_counts_within(run, target, data) for data in rows)
    if rows and (not own or others or earlier_samples.is_written_of(run, target)):
        for data in rows:
            write_into_all(run, target, data)
    elif rows:
        _write_places(run, target, rows, new)
        run.demand(target, value(*new.positions), uses.A_ROW)
        _write_other_rows(run, target, rows, new)
    _write_replicated(run, target, owner, new)
    _note_gathered_argument(run, target, owner)


def _are_in_two_orders(run: RunState, target: cst.Subscript, rows: list[Data]) -> bool:
    """Whether an index, or what is written, has its rows in another order than the tensor."""
    given = [*indices_of(target), *_given(run, target)]
    beside = [(one, data) for one in given for data in run.seen(one).data]
    return tensor_pairs.lie_in_two_orders([*((target.value, data) for data in rows), *beside])


def _counts_within(run: RunState, target: cst.Subscript, rows: Data) -> bool:
    """Whether the place in each row is told by which of the rows it is: ``z[i, i % 4] = 0``."""
    part = _part_of_rows(run, target, rows)
    along = part.value if isinstance(part, cst.Index) else None
    beside = indexed_rows.indices_as_tensors(run, target)
    return any(data.counting for shown, data in beside if shown is not along)


def _write_other_rows(run: RunState, target: cst.Subscript, rows: list[Data], new: Value) -> None:
    """``z[i] = x[i - 1]``: the row of another sample, which another rank may have.

    So it is where that says which part of a row is written: ``z[i, x[i - 1].argmax()] = 1.0``.
    """
    numbers = (one for index in indices_of(target) for one in run.seen(index).data)
    held = [*new.data, *(one for one in numbers if one.form is not Layout.ROW)]
    for data in (one for one in held if one.placement is Placement.ROWS):
        if data.form is Layout.ROW:
            refuse(run, target, data)  # each rank's own would be another
            continue
        for one in rows:
            if not _is_of_the_same_row(_part_of_rows(run, target, one), data):
                write_into_all(run, target, one)


def _are_of_all_ranks(atom: Atom) -> bool:
    """Whether this has a row for each sample of all ranks, for which a rank's part has no room."""
    rows = isinstance(atom, Data) and atom.form is Layout.GATHERED
    return rows and not atom.dim and not atom.opaque  # type: ignore[attr-defined]


def _is_of_the_same_row(part: cst.BaseSlice | None, row: Data) -> bool:
    """Whether what is written into a row was taken by its own position: not ``z[i] = x[i - 1]``."""
    at = {code_of(part.value)} if isinstance(part, cst.Index) else set()
    return row.taken_by <= at


def _write_whole(run: RunState, target: cst.Subscript, owner: Value, new: Value) -> None:
    """``z[:, 0] = x.mean()``: each row gets what is computed of all samples."""
    rows = [data for data in owner.data if data.placement is Placement.SHARD]
    if not rows:
        return
    parts = [data for data in new.data if data.placement.partial]
    if isinstance(target.slice[0].slice, cst.Index):  # z[i] = x[i].mean(), of its own sample
        parts = [data for data in parts if not (_is_coupled(data) and data.definition_sites)]
    for shown in _given(run, target) if parts else ():
        run.demand(shown, value(*parts), uses.ARITHMETIC)
    if parts and not _given(run, target):
        refuse(run, target, rows[0])
    held = (atom for atom in new.atoms if isinstance(atom, Data))
    tensor_pairs.note_used_on_rows(run, [*rows, *held])


def _is_coupled(data: Data) -> bool:
    return data.placement is Placement.COUPLED


def _write_places(run: RunState, target: cst.Subscript, rows: list[Data], new: Value) -> None:
    """``z[:, 0] = torch.arange(len(x))``: numbers of all rows, into those of all ranks."""
    counting = [data for data in new.data if data.counting]
    for shown in _given(run, target) if counting else ():
        run.demand(shown, value(*counting), uses.POSITIONS)
        for data in rows if not all(one.counting for one in rows) else ():
            write_into_all(run, target, data)


def _has_rows(data: Data) -> bool:
    """Whether a rank has some of the rows, whose places are known."""
    places = data.form in (Layout.TENSOR, Layout.STACKED) or data.ragged
    return data.placement is Placement.SHARD and places and data.dim >= 0 and not data.opaque


def _has_several(data: Data) -> bool:
    """Whether this may have several rows for each sample: which come first, nothing tells."""
    return data.several and data.form is Layout.TENSOR


def is_at_own_rows(run: RunState, target: cst.Subscript, rows: Data | None = None) -> bool:
    """Whether an index surely takes rows of each rank's own, or parts of all of them."""
    part = _part_of_rows(run, target, rows)
    if isinstance(part, cst.Slice):
        return _is_of_own_size(run, part)
    if not isinstance(part, cst.Index):
        return True
    index = per_sample_lists.as_index(run.seen(part.value))
    counted = loop_indices.counts_each_row(run, part)
    return counted or _is_own(run, index) or loop_indices.is_of_one_sample(run, part)


def _part_of_rows(run: RunState, target: cst.Subscript, rows: Data | None) -> cst.BaseSlice | None:
    """The part of an index that goes along the rows; None where all of them are taken."""
    dim, ndim = (rows.dim, rows.ndim) if rows is not None else (0, 0)
    place = 0
    for element in target.slice:
        kind, _ = index_kind(run, element.slice)
        if kind == "ellipsis":
            if dim == 0 or not ndim:
                return None
            place += left_open(run, target, ndim)
        elif kind != "new":
            if place == dim:
                return element.slice
            place += 1
    return None


def _is_of_own_size(run: RunState, part: cst.Slice) -> bool:
    """Whether a slice takes all rows, or is as long as a rank's part of them."""
    if part.lower is part.upper is None:
        return part.step is None
    if part.step is not None or bounds.begins_later(run, part):
        return False
    held = [data for bound in bounds.written(part) for data in run.seen(bound).data]
    counts = [d for d in held if d.placement is Placement.COUNT or d.is_position]
    return bool(counts) and all(d.form is not NumberKind.ROUNDED for d in counts)


def _is_own(run: RunState, index: Value) -> bool:
    """Whether an index is a mask of a rank's rows, or positions among those."""
    atoms = [atom for one in _joined(index) for atom in one.atoms]
    return bool(atoms) and all(_counts_own_rows(run, atom) for atom in atoms)


def _joined(index: Value) -> list[Value]:
    """An index, or the one for the first dimension where it is a tuple of several."""
    tuples = [a.items[0] for a in index.atoms if isinstance(a, Tup) and a.items]
    others = [a for a in index.atoms if not isinstance(a, Tup)]
    return [*tuples, *([value(*others)] if others else [])]


def _counts_own_rows(run: RunState, atom: Atom) -> bool:
    if not isinstance(atom, Data):
        return False
    if atom.form is NumberKind.RANGE or atom.dim == NO_ROWS:
        return True
    split = atom.placement is Placement.SHARD
    return split and (atom.boolean or atom.opaque or taken_rows.are_found(run, atom))


def write_into_all(run: RunState, target: cst.BaseExpression, rows: Data) -> None:
    """Ask for the rows of all ranks where a fresh tensor got its name, to be written into.

    Of another, a view may show what is written: a gathered copy would not.
    """
    if rows.names and all(is_fresh(name) for name in rows.names):
        for name in rows.names:
            run.demand(name, value(replace(rows, names=frozenset())), uses.A_STATISTIC)
        return
    refuse(run, target, rows)


def refuse(run: RunState, target: cst.BaseExpression, rows: Data) -> None:
    """Demand what cannot be had: a write into these rows at places that are not a rank's own."""
    unreducible = Data(Placement.SHARD, rows.loaders, form=Layout.PACKED)
    run.demand(target, value(unreducible), uses.A_ROW)


def is_fresh(shown: cst.BaseExpression) -> bool:
    """Whether an expression makes a tensor of its own: a copy, or the result of arithmetic."""
    if isinstance(shown, (cst.BinaryOperation, cst.Comparison, cst.UnaryOperation)):
        return not isinstance(getattr(shown, "operator", None), (cst.Plus, cst.Not))
    if not isinstance(shown, cst.Call) or _is_told_where(shown):
        return False
    called = shown.func.attr if isinstance(shown.func, cst.Attribute) else shown.func
    name = called.value if isinstance(called, cst.Name) else ""
    return name in _MAKING or (rule_of(name) in _COMPUTING and name not in PERHAPS_VIEWS)


def _is_told_where(call: cst.Call) -> bool:
    """Whether a result may be written into something that is there: ``out=``, ``inplace=``."""
    return any(a.keyword is not None and a.keyword.value in ("out", "inplace") for a in call.args)


def _write_replicated(run: RunState, target: cst.Subscript, owner: Value, new: Value) -> None:
    """Ask for positions and values of all ranks where the rows of all are written into."""
    replicated = [a for a in owner.atoms if isinstance(a, Data) and a.form is Layout.GATHERED]
    if not replicated:
        return
    made_rows.note_filled(run, replicated, new)
    at = [e.slice.value for e in target.slice if isinstance(e.slice, cst.Index)]
    bounds.count_sizes(run, [*bounds.of_slices(target), *at])
    bounds.count_all_rows(run, at)
    given = [*at, *_given(run, target)]
    shown = [(one, per_sample_lists.as_index(run.seen(one))) for one in given]
    held = tensor_pairs.held_tensors(shown)
    tensor_pairs.beside_replicated(run, [(target.value, replicated[0]), *held])


def _given(run: RunState, target: cst.Subscript) -> list[cst.BaseExpression]:
    """What is written there, as far as one expression gives it."""
    parents = run.module.parents
    above = parents[target]
    if isinstance(above, cst.BaseElement):
        return _given_beside(run, above)
    above = parents[above] if isinstance(above, cst.AssignTarget) else above
    return [above.value] if isinstance(above, (cst.Assign, cst.AugAssign)) else []


def _given_beside(run: RunState, element: cst.BaseElement) -> list[cst.BaseExpression]:
    """What one of several targets is given: ``z[:, 0], z[:, 1] = x, y``."""
    parents = run.module.parents
    targets = parents[element]
    above = parents[targets]
    statement = parents[above] if isinstance(above, cst.AssignTarget) else None
    given = displayed(statement.value) if isinstance(statement, cst.Assign) else None
    if not isinstance(targets, (cst.Tuple, cst.List)) or given is None:
        return []
    same = len(given) == len(targets.elements)
    return [given[targets.elements.index(element)]] if same else []


def _write_together(run: RunState, target: cst.Subscript, owner: Value) -> None:
    """A write into samples at positions that are not counted: which they are, the batch says."""
    first = target.slice[0].slice
    places = [first.value] if isinstance(first, cst.Index) else bounds.written(first)
    literal = any(isinstance(run.seen(one).constant(), int) for one in places)
    if literal or (isinstance(first, cst.Index) and not _is_counted(run, first.value)):
        run.mixes(target, *(data for data in owner.data if _has_rows(data)))


def _is_counted(run: RunState, index: cst.BaseExpression) -> bool:
    """Whether a loop counts an index, or the samples that it writes into have it themselves."""
    if run.seen(index).data or isinstance(index, cst.Ellipsis):
        return True
    loops = (one for one in run.module.structure.up(index) if isinstance(one, cst.For))
    return any(one.deep_equals(index) for loop in loops for one in names_of(loop.target))


def _note_gathered_argument(run: RunState, target: cst.Subscript, owner: Value) -> None:
    """Refuse a write into gathered rows that a function is given: the caller keeps its own."""
    if not _is_gathered_for_call(run, target.value):
        return
    for atom in owner.atoms:
        if isinstance(atom, Data) and atom.form is Layout.GATHERED:
            packed = Data(Placement.SHARD, atom.loaders, form=Layout.PACKED)
            run.demand(target, value(packed), uses.A_ROW)


def _is_gathered_for_call(run: RunState, written: cst.BaseExpression) -> bool:
    """Whether this is a parameter that gets gathered rows, of which the caller keeps its own."""
    call = run.frame.call.node if run.frame.call is not None else None
    passed = isinstance(written, cst.Name) and written.value in run.frame.scope.passed
    if not passed or not isinstance(call, cst.Call) or call in run.choices.split:
        return False  # ranks take their own of what it gives back
    return any(run.reduces(argument.value) for argument in call.args)
