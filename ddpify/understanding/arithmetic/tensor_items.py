"""Items of tensors: which rows, sizes and elements an index takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import record, replace
from ddpify.understanding import uses
from ddpify.understanding.answers import first_answer
from ddpify.understanding.arithmetic import (
    across_samples,
    indexed_rows,
    lifted_rows,
    picked_by_rows,
    shape_items,
    single_samples,
    tensor_pairs,
    tensor_parts,
)
from ddpify.understanding.arithmetic.index_kinds import (
    dimension_left,
    index_kind,
)
from ddpify.understanding.batching import (
    collating,
    handmade_batches,
    per_sample_lists,
)
from ddpify.understanding.forms import SEVERAL_TENSORS, Layout, NumberKind
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import bounds
from ddpify.understanding.syntax import indices_of
from ddpify.understanding.values import (
    NO_ROWS,
    REPLICATED,
    UNKNOWN,
    Const,
    Data,
    Tup,
    Value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def item(run: RunState, node: cst.Subscript, atom: Data) -> Value:
    """``tensor[...]``."""
    of_all = lifted_rows.asked(run, "getitem", [atom])
    if of_all is not None:
        return of_all
    taken = _Taken(run, node, atom)
    known = first_answer(_RULES, taken)
    return value(indexed_rows.indexed(run, node, atom)) if known is None else known


@record
class _Taken:
    """An item of something that is made of samples."""

    run: RunState
    node: cst.Subscript
    atom: Data


# ---------------------------------------------------------------------- rules for items
def _of_a_shape(taken: _Taken) -> Value | None:
    shape = taken.atom.form is NumberKind.SHAPE
    return shape_items.item(taken.run, taken.node, taken.atom) if shape else None


def _of_packed(taken: _Taken) -> Value | None:
    if taken.atom.form is not Layout.PACKED:
        return None
    part = taken.node.slice[0].slice
    place = taken.run.seen(part.value).constant() if isinstance(part, cst.Index) else None
    return tensor_parts.part(taken.atom, place if isinstance(place, int) else 0)


def _some_samples(taken: _Taken) -> Value | None:
    """A rank's first samples are not the first of the batch."""
    run, node, atom = taken.run, taken.node, taken.atom
    if atom.form is not Layout.SAMPLES or not isinstance(node.slice[0].slice, cst.Slice):
        return None
    run.mixes(node, replace(atom, form=Layout.TENSOR))
    return value(atom)


def _one_sample(taken: _Taken) -> Value | None:
    """One of the samples of a batch, or a part of one."""
    run, node, atom = taken.run, taken.node, taken.atom
    if atom.form is not Layout.SAMPLES and atom.dim != NO_ROWS:
        return None
    part = _of_sample(run, node, atom)
    alone = atom.dim == NO_ROWS and _first_is_new(run, node)
    return value(collating.one_row(part) if alone else part)


def _of_several(taken: _Taken) -> Value | None:
    """A tensor of several."""
    run, node, atom = taken.run, taken.node, taken.atom
    several = atom.form in SEVERAL_TENSORS or _string_key(run, node)
    return _batch_item(run, node, atom) if several else None


def _of_one_size(taken: _Taken) -> Value | None:
    """Of a tensor as large as a batch, which an item may no longer be."""
    if taken.atom.form is not Layout.SIZED:
        return None
    return picked_by_rows.rows_by_index(taken.run, taken.node) or REPLICATED


def _of_reduced(taken: _Taken) -> Value | None:
    """What is made of a reduced number is replicated like any other tensor."""
    reduced = taken.atom.reduced
    return picked_by_rows.rows_by_index(taken.run, taken.node) if reduced else None


def _of_numbers_that_count(taken: _Taken) -> Value | None:
    """Some of the numbers that count rows: which, all ranks' rows say."""
    run, node, atom = taken.run, taken.node, taken.atom
    if not atom.counting or not _takes_others(run, node):
        return None
    run.demand(node.value, value(atom), uses.POSITIONS)
    return value(replace(atom.placed(Placement.REPLICATE), form=Layout.GATHERED))


def _of_a_permutation(taken: _Taken) -> Value | None:
    """Some positions in the whole batch, or all of them with another dimension."""
    run, node, atom = taken.run, taken.node, taken.atom
    others = bounds.takes_some(node) or len(node.slice) > 1
    if atom.form is not Layout.PERMUTATION or not others:
        return None
    bounds.count_sizes(run, bounds.of_slices(node))
    whole = replace(atom.placed(Placement.REPLICATE), form=Layout.GATHERED)
    index = tensor_pairs.held_tensors([(i, run.seen(i)) for i in indices_of(node)])
    tensor_pairs.beside_replicated(run, [(node.value, whole), *index])
    return value(whole)


def _of_partial(taken: _Taken) -> Value | None:
    """One of the numbers, of the whole batch, for each row."""
    run, node, atom = taken.run, taken.node, taken.atom
    rows = picked_by_rows.rows_by_index(run, node) if atom.placement.partial else None
    if rows is None and atom.placement.partial:
        rows = _by_batch(run, node)
    if rows is not None:
        run.demand(node.value, value(atom), uses.ARITHMETIC)
    return rows


def _by_batch(run: RunState, node: cst.Subscript) -> Value | None:
    """What positions take that may be a batch made by hand: a row for each of them."""
    first = node.slice[0].slice
    index = run.seen(first.value) if isinstance(first, cst.Index) else UNKNOWN
    batch = handmade_batches.replicated_tensors(index)
    return handmade_batches.sliced(run, node) if batch else None


def _of_no_rows(taken: _Taken) -> Value | None:
    """Of what all ranks hold, or of what mixes rows."""
    run, node, atom = taken.run, taken.node, taken.atom
    if atom.placement is Placement.SHARD:
        return None
    _count_its_sizes(run, node, atom)
    single = _is_one_position(run, node)
    rows = atom.form is Layout.GATHERED and not atom.opaque
    if rows and _may_take_all(run, node):
        return value(replace(atom, flat=True, opaque=True, ndim=0))
    if rows and atom.dim == 0 and (single or _is_fixed(run, node)):
        return value(atom.placed(Placement.REPLICATE))
    single &= atom.placement.partial
    # Of numbers that count rows, some still do, however many of them there are. What a weighted
    # mean divides by is known where it is made.
    weighted = atom.placement is Placement.WEIGHTED
    named = atom.is_position or atom.reduced or weighted
    sites = atom.definition_sites if named else tensor_pairs.definition_sites(atom)
    kept = replace(atom, definition_sites=sites, ndim=0)
    dim = dimension_left(run, node, atom.dim) if rows else atom.dim
    return value(replace(kept, one_each=atom.one_each or single, dim=dim))


def _count_its_sizes(run: RunState, node: cst.Subscript, atom: Data) -> None:
    """Let numbers of rows in an index be those of all ranks, where the rows are."""
    by = indices_of(node)
    if atom.placement is Placement.COUPLED or atom.form is Layout.GATHERED:
        bounds.count_sizes(run, bounds.of_slices(node))
    if atom.form is Layout.GATHERED:
        bounds.count_sizes(run, by)
        bounds.count_all_rows(run, by)
    index = tensor_pairs.held_tensors([(i, run.seen(i)) for i in by])
    tensor_pairs.beside_replicated(run, [(node.value, atom), *index])


_RULES = (
    _of_a_shape,
    _of_packed,
    _some_samples,
    _one_sample,
    _of_several,
    _of_one_size,
    _of_reduced,
    _of_numbers_that_count,
    _of_a_permutation,
    _of_partial,
    _of_no_rows,
)
"""The first that says something of an item is right; of all others, an index takes rows."""


# ---------------------------------------------------------------------- what they ask
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


def _takes_others(run: RunState, node: cst.Subscript) -> bool:
    """Whether an index takes some of the numbers that count rows: which, all ranks' rows say."""
    if run.collating or (run.frames_forward() and not run.module.editable):
        return False
    kind, index = index_kind(run, node.slice[0].slice)
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


def _may_take_all(run: RunState, node: cst.Subscript) -> bool:
    """Whether an index is a tuple under a name whose first part may be a slice."""
    first = node.slice[0].slice
    index = run.seen(first.value) if isinstance(first, cst.Index) else UNKNOWN
    return any(one.items and one.items[0].constant() is ... for one in index.of(Tup))


def _first_is_new(run: RunState, node: cst.Subscript) -> bool:
    """Whether an index puts a new dimension first, as ``x[None]`` does."""
    return index_kind(run, node.slice[0].slice)[0] == "new"


def _string_key(run: RunState, node: cst.Subscript) -> bool:
    """Whether the index is a name, or has one: then the whole is a dictionary of tensors."""
    first = node.slice[0].slice
    return isinstance(first, cst.Index) and _is_key(run.seen(first.value))


def _is_key(index: Value) -> bool:
    """Whether an index is text, one of several texts, or a tuple with text in it."""
    parts = (part for atom in index.of(Tup) for part in atom.items)
    text = any(isinstance(a, Const) and isinstance(a.value, str) for a in index.atoms)
    return text or any(_is_key(part) for part in parts)


def _is_a_place(index: Value) -> bool:
    """Whether an index is a number that is known, or one of several."""
    return bool(index) and all(isinstance(a, Const) and type(a.value) is int for a in index.atoms)


def _batch_item(run: RunState, node: cst.Subscript, atom: Data) -> Value:
    """An element of a batch by literal index; anything else indexes a tensor."""
    first = node.slice[0].slice
    if len(node.slice) == 1 and isinstance(first, cst.Index):
        index = run.seen(first.value)
        if _is_a_place(index) or _is_key(index):
            return value(replace(atom, form=Layout.TENSOR))
    return value(indexed_rows.indexed(run, node, atom))
