"""Items of tensors: which rows, sizes and elements an index takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arithmetic import (
    across_samples,
    loop_indices,
    sequences,
    single_samples,
    taken_rows,
    tensor_pairs,
    unsure_sizes,
)
from ddpify.understanding.batching import (
    batch_cuts,
    batch_rows,
    batch_sizes,
    collating,
    current_batch,
    handmade_batches,
    joint_loaders,
    per_sample_lists,
)
from ddpify.understanding.facts import Draw
from ddpify.understanding.forms import SEVERAL_TENSORS, Layout, NumberKind
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import bounds, dimensions, tensor_sizes
from ddpify.understanding.syntax import displayed, indices_of
from ddpify.understanding.values import (
    NO_ROWS,
    REPLICATED,
    UNKNOWN,
    Const,
    Data,
    Instance,
    Tup,
    Value,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def _of_sample(run: RunState, node: cst.Subscript, atom: Data) -> Data:
    """One of the samples of a batch, or a part of one."""
    if atom.form is Layout.SAMPLES:
        return single_samples.at(
            node.slice[0].slice, replace(collating.sample(atom), form=Layout.SAMPLE)
        )
    first = node.slice[0].slice
    if atom.form is Layout.SAMPLE and isinstance(first, cst.Index):
        place = run.seen(first.value).constant()
        if isinstance(place, int):
            return collating.part_of_sample(atom, place)
    return collating.sample(atom)


def item(run: RunState, node: cst.Subscript, atom: Data) -> Value:
    """``tensor[...]``."""
    if atom.form is NumberKind.SHAPE:
        return _shape_item(run, node, atom)
    if atom.form is Layout.PACKED:
        return value(sequences.elements(atom))
    if atom.form is Layout.SAMPLES and isinstance(node.slice[0].slice, cst.Slice):
        run.mixes(node, replace(atom, form=Layout.TENSOR))  # a rank's first ones are not the first
        return value(atom)
    if atom.form is Layout.SAMPLES or atom.dim == NO_ROWS:
        part = _of_sample(run, node, atom)
        alone = atom.dim == NO_ROWS and _first_is_new(run, node)
        return value(collating.one_row(part) if alone else part)
    if atom.form in SEVERAL_TENSORS or _string_key(run, node):
        return _batch_item(run, node, atom)
    if atom.form is Layout.SIZED:
        return rows_by_index(run, node) or REPLICATED  # or no longer of as many as a batch
    if atom.reduced:  # what is made of a reduced number is replicated like any other tensor
        taken = rows_by_index(run, node)
        if taken is not None:
            return taken
    if atom.counting and _takes_others(run, node):
        run.demand(node.value, value(atom), uses.POSITIONS)
        return value(replace(atom.placed(Placement.REPLICATE), form=Layout.GATHERED))
    if atom.form is Layout.PERMUTATION and bounds.takes_some(node):  # positions in the whole batch
        bounds.count_sizes(run, bounds.of_slices(node))
        whole = replace(atom.placed(Placement.REPLICATE), form=Layout.GATHERED)
        index = tensor_pairs.held_tensors([(i, run.seen(i)) for i in indices_of(node)])
        tensor_pairs.beside_replicated(run, [(node.value, whole), *index])
        return value(whole)
    if atom.placement.partial:
        taken = rows_by_index(run, node)
        if taken is not None:  # one of the numbers, of the whole batch, for each row
            run.demand(node.value, value(atom), uses.ARITHMETIC)
            return taken
    if atom.placement is not Placement.SHARD:
        by = indices_of(node)
        if atom.placement is Placement.COUPLED or atom.form is Layout.GATHERED:
            bounds.count_sizes(run, bounds.of_slices(node))
        if atom.form is Layout.GATHERED:
            bounds.count_sizes(run, by)
            bounds.count_all_rows(run, by)
        tensor_pairs.beside_replicated(
            run, [(node.value, atom), *tensor_pairs.held_tensors([(i, run.seen(i)) for i in by])]
        )
        single = _is_one_position(run, node)
        rows = atom.form is Layout.GATHERED and not atom.opaque
        if rows and atom.dim == 0 and (single or _is_fixed(run, node)):
            return value(atom.placed(Placement.REPLICATE))
        single &= atom.placement.partial
        # Of numbers that count rows, some still do, however many of them there are.
        sites = atom.definition_sites if atom.is_position else tensor_pairs.definition_sites(atom)
        kept = replace(atom, definition_sites=sites, ndim=0)
        dim = _dimension_left(run, node, atom.dim) if rows else atom.dim
        return value(replace(kept, one_each=atom.one_each or single, dim=dim))
    return value(_index(run, node, atom))


def _dimension_left(run: RunState, node: cst.Subscript, dim: int) -> int:
    """Which dimension one of the rows of all ranks is after an index."""
    at = 0
    for element in node.slice:
        kind, index = _index_kind(run, element.slice)
        if kind == "ellipsis" or at > dim or (at == dim and kind != "new"):
            break
        gone = kind == "index" and isinstance(index.constant(), int)
        dim += (kind == "new") - gone
        at += not gone
    return dim


def _takes_others(run: RunState, node: cst.Subscript) -> bool:
    """Whether an index takes some of the numbers that count rows: which, all ranks' rows say."""
    if run.collating or (run.frames_forward() and not run.module.editable):
        return False
    kind, index = _index_kind(run, node.slice[0].slice)
    return kind == "slice" or (kind == "index" and index.constant() is ...)


def _is_one_position(run: RunState, node: cst.Subscript) -> bool:
    """Whether ``x[0]`` takes one row, at a position that is the same on all ranks."""
    first = node.slice[0].slice
    index = run.seen(first.value).constant() if isinstance(first, cst.Index) else None
    return isinstance(index, int) and not isinstance(index, bool)


def _is_fixed(run: RunState, node: cst.Subscript) -> bool:
    """Whether a forward reads the samples of all ranks at a position that all ranks know."""
    first = node.slice[0].slice
    if not isinstance(first, cst.Index) or not run.frames_forward():
        return False
    return across_samples.is_fixed(per_sample_lists.as_index(run.seen(first.value)))


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


def _first_is_new(run: RunState, node: cst.Subscript) -> bool:
    """Whether an index puts a new dimension first, as ``x[None]`` does."""
    return _index_kind(run, node.slice[0].slice)[0] == "new"


def _shape_item(run: RunState, node: cst.Subscript, atom: Data) -> Value:
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


def _string_key(run: RunState, node: cst.Subscript) -> bool:
    """Whether the index is a name, or has one: then the whole is a dictionary of tensors."""
    first = node.slice[0].slice
    return isinstance(first, cst.Index) and _is_key(run.seen(first.value))


def _is_key(index: Value) -> bool:
    """Whether an index is text, one of several texts, or a tuple with text in it."""
    parts = (part for atom in index.of(Tup) for part in atom.items)
    text = any(isinstance(a, Const) and isinstance(a.value, str) for a in index.atoms)
    return text or any(_is_key(part) for part in parts)


def _batch_item(run: RunState, node: cst.Subscript, atom: Data) -> Value:
    """An element of a batch by literal index; anything else indexes a tensor."""
    first = node.slice[0].slice
    if len(node.slice) == 1 and isinstance(first, cst.Index):
        index = run.seen(first.value)
        if isinstance(index.constant(), int) or _is_key(index):
            return value(replace(atom, form=Layout.TENSOR))
        return value(_index(run, node, atom))
    return value(_index(run, node, atom))


def _index(run: RunState, node: cst.Subscript, atom: Data) -> Data:
    """Rows that are picked by position are no longer a shard; whole rows stay one."""
    dim, before = 0, atom.ndim
    batch_rows.note_indices(run, node)
    _count_other_sizes(run, node, atom)
    ask_for_others(run, node, [atom])
    left = _dimensions_left(run, node, atom)
    unsure = _may_take_rows(run, node, atom)
    atom = replace(atom, ndim=left, one_each=_leaves_one_each(run, node, atom))
    for element in node.slice:
        part_ = element.slice
        kind, index = _index_kind(run, part_)
        if kind == "ellipsis" and not before:
            if unsure:
                return _of_unknown_place(run, node, atom)
            return replace(atom, definition_sites=frozenset())
        if kind == "ellipsis":
            if dim <= atom.dim < dim + _left_open(run, node, before):
                return replace(atom, definition_sites=frozenset())
            dim += _left_open(run, node, before)
            continue
        if kind == "new":
            if dim <= atom.dim:
                atom = replace(atom, dim=atom.dim + 1)
            dim += 1
            continue
        if dim == atom.dim:
            return _index_rows(run, node, atom, part_, kind, index)
        if kind == "index" and (
            isinstance(index.constant(), int) or loop_indices.is_counter(run, part_)
        ):
            atom = replace(atom, dim=atom.dim - 1, several=False)  # that dimension is gone
        else:
            dim += 1
    return _all_rows(run, node, atom)


def ask_for_others(run: RunState, node: cst.Subscript, tensors: Sequence[Data]) -> None:
    """Ask for numbers that samples made where they take a place in every row: ``x[:, y[0]]``."""
    kinds = [_index_kind(run, element.slice) for element in node.slice]
    first = kinds[0][0] in ("whole", "ellipsis")
    if run.collating or not first or not all(one.dim == 0 for one in tensors):
        return
    for element in node.slice[1:]:
        shown = element.slice
        places = [shown.value] if isinstance(shown, cst.Index) else bounds.written(shown)
        for place in places:
            made = (one for one in run.seen(place).data if _is_of_samples(one))
            run.demand(place, value(*made), uses.AN_INDEX)


def _is_of_samples(number: Data) -> bool:
    """Whether this is a number that one sample, or all of a rank's, made."""
    partial = number.placement.partial and number.form is not NumberKind.NUMBER
    return partial or (number.placement is Placement.ROWS and not number.is_position)


def _left_open(run: RunState, node: cst.Subscript, ndim: int) -> int:
    """For how many dimensions an ellipsis stands."""
    kinds = [_index_kind(run, element.slice)[0] for element in node.slice]
    return ndim - sum(kind not in ("new", "ellipsis") for kind in kinds)


def _may_take_rows(run: RunState, node: cst.Subscript, atom: Data) -> bool:
    """Whether what stands behind an ellipsis may take some of the rows.

    How many dimensions there are is not known.
    """
    kinds = [_index_kind(run, element.slice)[0] for element in node.slice]
    if kinds[0] != "ellipsis" or not is_plain_batch(atom):
        return False
    behind = [kind for kind in kinds[1:] if kind != "new"]
    taking = [at - len(behind) for at, kind in enumerate(behind) if kind != "whole"]
    return dimensions.may_be_of_rows(atom, taking)


def _of_unknown_place(run: RunState, node: cst.Subscript, atom: Data) -> Data:
    """What an index takes of the rows of all ranks, or of what each of them holds."""
    if run.collating:
        run.mixes(node, atom)
        return replace(atom, definition_sites=frozenset())
    if not run.frames_forward():
        return replace(atom.placed(Placement.COUPLED), names=frozenset({node.value}))
    run.demand(node.value, value(atom), uses.A_STATISTIC)
    whole = replace(atom.placed(Placement.REPLICATE), form=Layout.GATHERED)
    return replace(whole, flat=True, opaque=True)


def _count_other_sizes(run: RunState, node: cst.Subscript, atom: Data) -> None:
    """Let numbers of rows that cut another dimension than that of the rows be those of all."""
    kinds = [_index_kind(run, element.slice)[0] for element in node.slice]
    for number, element in enumerate(node.slice):
        before = kinds[:number]
        at = number - before.count("new")
        if kinds[number] == "slice" and ("ellipsis" in before or at != atom.dim):
            bounds.count_numbers(run, bounds.written(element.slice))


def _dimensions_left(run: RunState, node: cst.Subscript, atom: Data) -> int:
    """How many dimensions an index leaves; 0 where that is not known."""
    left = atom.ndim
    for element in node.slice if left else ():
        kind, index = _index_kind(run, element.slice)
        if kind == "index" and not isinstance(index.constant(), int):
            return 0
        left += (kind == "new") - (kind == "index")
    return max(left, 0)


def _leaves_one_each(run: RunState, node: cst.Subscript, atom: Data) -> bool:
    """Whether ``x[:, 0]`` may be a single number for each sample."""
    kinds = [_index_kind(run, element.slice) for element in node.slice]
    dropped = sum(kind == "index" and isinstance(at.constant(), int) for kind, at in kinds)
    kept = len(kinds) - dropped
    if not dropped and kinds[0][0] == "ellipsis" and all(kind != "new" for kind, _ in kinds):
        return atom.one_each
    return kept == 1 and dimensions.may_leave_one_each(atom, dropped)


def _is_first_column(run: RunState, node: cst.Subscript) -> bool:
    """Whether ``found[:, 0]`` takes positions along the first dimension of a mask, or of all."""
    indices_ = [run.seen(index).constant() for index in indices_of(node)]
    return not indices_ or indices_ == [0]


def _all_rows(run: RunState, node: cst.Subscript, atom: Data) -> Data:
    """Part of every row: there are as many rows for each sample as before."""
    if atom.counting:
        return atom
    if atom.found_in and not _is_first_column(run, node):
        atom = replace(atom, found_in=frozenset())
    if atom.ragged:
        kept = Layout.MASKED
    else:
        kept = atom.form if atom.form in (Layout.STACKED, Layout.INTERLEAVED) else Layout.TENSOR
    return replace(atom, definition_sites=frozenset(), form=kept)


def is_plain_batch(data: Data) -> bool:
    """Whether these are a rank's rows, one after the other."""
    rows = data.placement is Placement.SHARD and data.form is Layout.TENSOR
    return rows and data.dim == 0 and not data.opaque


def _index_kind(run: RunState, part_: cst.BaseSlice) -> tuple[str, Value]:
    if isinstance(part_, cst.Slice):
        whole = part_.lower is None and part_.upper is None
        return ("whole" if whole and part_.step is None else "slice"), UNKNOWN
    assert isinstance(part_, cst.Index)
    if isinstance(part_.value, cst.Ellipsis):
        return "ellipsis", UNKNOWN
    index = per_sample_lists.as_index(run.seen(part_.value))
    if index.constant() is None:
        return "new", index
    tuples = [item for atom in index.of(Tup) for item in atom.items]
    return "index", join(index, *tuples)  # as np.where() gives positions


def _index_rows(
    run: RunState, node: cst.Subscript, atom: Data, part_: cst.BaseSlice, kind: str, index: Value
) -> Data:
    if kind == "whole":
        return _all_rows(run, node, atom)
    counts = bounds.counted(run, node)
    if atom.several and atom.dim == 0 and atom.form is not Layout.INTERLEAVED:
        bounds.count_sizes(run, bounds.of_slices(node))  # the first rows are not the first samples'
    elif counts and not bounds.begins_later(run, part_):
        loaders = _loaders_within(run, part_, atom, counts[0])
        return replace(atom, definition_sites=frozenset(), form=Layout.TENSOR, loaders=loaders)
    cut = batch_cuts.cut(run, node, atom, part_)
    if cut is not None:
        return cut
    if any(isinstance(a, Data) and a.form is Layout.PERMUTATION for a in index.atoms):
        return regrouped(run, node, node.value, atom)
    if tensor_pairs.beside_replicated(run, [(node.value, atom), *_positions_of_all(index, node)]):
        return replace(atom.placed(Placement.REPLICATE), form=Layout.GATHERED)
    located = not run.frames_forward() or (is_plain_batch(atom) and run.module.editable)
    for numbers in (d for d in index.data if d.form is NumberKind.COMPUTED and located):
        assert isinstance(part_, cst.Index)
        run.demand(part_.value, value(numbers), uses.POSITIONS)
    for order in (d for d in index.data if d.form is Layout.ORDER and d.definition_sites):
        assert isinstance(part_, cst.Index)
        of_all = Data(Placement.ROWS, order.loaders, order.definition_sites)
        if not run.frames_forward():
            run.demand(part_.value, value(of_all), uses.AN_INDEX)
    for one in index.data if kind == "index" else ():
        assert isinstance(part_, cst.Index)
        of_a_row = one.placement is Placement.ROWS and not run.frames_forward()
        if one.placement is Placement.COUPLED or of_a_row:
            run.demand(part_.value, value(one), uses.AN_INDEX)
    if run.frames_forward() and loop_indices.is_of_one_sample(run, part_):
        return replace(atom, definition_sites=frozenset(), dim=NO_ROWS)  # each time, one sample's
    picked = taken_rows.by_positions(run, node, atom, index)
    if picked is not None:
        return picked
    if any(d.placement is Placement.SHARD for d in index.data):
        # A forward treats each sample alone: it puts rows in order, and back again.
        forms = (NumberKind.RANGE, Layout.ORDER) if run.frames_forward() else (NumberKind.RANGE,)
        each = any(d.form in forms for d in index.data)
        return replace(
            atom, definition_sites=frozenset(), form=Layout.TENSOR if each else Layout.MASKED
        )
    row = kind == "index" and isinstance(index.constant(), int) and not atom.opaque
    counted = bool(index.positions)
    if counted and kind == "index" and run.frames_forward() and atom.dim == 0:
        return single_samples.taken(run, atom, part_)
    taken = None
    if not counted and kind in ("index", "slice"):
        taken = across_samples.taken_by_position(
            run, node, atom, index if kind == "index" else None
        )
    if taken is not None:
        return taken
    if run.collating and not counted:
        run.mixes(node, atom)
    if (atom.opaque and not counted) or run.frames_forward():
        # An element of an unseen container; in a forward, which treats each sample alone, the
        # dimension that is indexed is not the batch.
        return replace(atom, definition_sites=frozenset(), form=Layout.ROW if row else atom.form)
    bounds.count_parts(run, node)
    picked_from = frozenset({node.value})  # where the whole batch could be gathered
    for one in index.positions:
        run.facts.rows.positions.setdefault(node.value, set()).update(one.definition_sites)
    picked_row = replace(
        atom.placed(Placement.ROWS),
        definition_sites=picked_from,
        form=Layout.ROW if row else Layout.TENSOR,
    )
    return single_samples.at(part_, picked_row) if kind == "index" else picked_row


def _positions_of_all(index: Value, node: cst.Subscript) -> list[tuple[cst.BaseExpression, Data]]:
    """Positions of rows of the whole batch, in an index."""
    held = [a for a in index.atoms if isinstance(a, Data) and not a.placement.local]
    return [(node, a) for a in held if a.form is Layout.GATHERED]


def _loaders_within(
    run: RunState, part_: cst.BaseSlice, atom: Data, count: Data
) -> frozenset[Instance]:
    """The loaders of the first rows, as many as one batch has, of several batches; of the rest."""
    if not isinstance(part_, cst.Slice) or not joint_loaders.unequal(
        run, atom.loaders, atom.loaders
    ):
        return atom.loaders
    if part_.lower is None:
        return count.loaders
    return atom.loaders - count.loaders if part_.upper is None else atom.loaders


def regrouped(
    run: RunState, node: cst.BaseExpression, rows: cst.BaseExpression, atom: Data
) -> Data:
    """Rows of the batch in another order: this rank's, once the whole batch is put in order."""
    if not run.module.editable or atom.form is Layout.PERMUTATION:
        return atom.placed(Placement.COUPLED)
    return across_samples.on_all_rows(run, node, rows, atom)


def replicated_item(run: RunState, node: cst.Subscript) -> Value:
    """An item of something replicated: sharded where the index is, as in ``weights[labels]``."""
    by_rows = _by_gathered(run, node) or rows_by_index(run, node)
    return by_rows or handmade_batches.sliced(run, node) or REPLICATED


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
    return rows_by_index(run, node) or (value(*held) if held else None)


def rows_by_index(run: RunState, node: cst.Subscript) -> Value | None:
    """The rows that an index by this rank's rows, or by their number, takes; else None."""
    held = (per_sample_lists.as_index(run.seen(index)) for index in indices_of(node))
    shards = [d for one in held for d in one.data if d.placement is Placement.SHARD]
    counted = bounds.counted(run, node)
    of_all = None if shards else bounds.of_all_rows(run, node)
    if of_all is not None:
        return value(of_all)
    if counted and not shards:
        _note_slice(run, node)
    shards += counted
    if not shards:
        return None
    if all_found(run, indices_of(node)) or _counted_up(run, node):
        return REPLICATED
    rows = shards[0].placed(Placement.SHARD)
    return value(replace(rows, form=Layout.MASKED) if shards[0].ragged else rows)


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


def _note_slice(run: RunState, node: cst.Subscript) -> None:
    """Note that as many rows as a rank has are taken from what all ranks hold.

    It holds rows for the whole batch: a rank's own are not its first.
    """
    if run.frames_forward() or run.collating:
        return
    part_ = node.slice[0].slice
    if not isinstance(part_, cst.Slice) or not bounds.counted_in(run, part_):
        return  # along another dimension
    if run.module.editable and bounds.is_counted(run, part_.upper):
        draw = run.facts.random.counted_slices.setdefault(node, Draw(run.site(node)))
        draw.counts = bounds.counted_in(run, part_)
        current_batch.used(run, node, bounds.counted(run, node))
        return
    for data in bounds.counted(run, node):
        rows = Data(Placement.SHARD, data.loaders, form=Layout.PACKED)  # which no reduction suits
        run.demand(node, value(rows), uses.A_SLICE)
