"""What an index takes of a rank's rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import record, replace
from ddpify.understanding import uses
from ddpify.understanding.answers import first_answer
from ddpify.understanding.arithmetic import (
    across_samples,
    loop_indices,
    single_samples,
    taken_rows,
    tensor_pairs,
)
from ddpify.understanding.arithmetic.index_kinds import (
    dimensions_left,
    index_kind,
    is_one_wide,
    leaves_one_each,
    left_open,
    operands,
    reaches_rows,
    takes_one,
)
from ddpify.understanding.batching import (
    batch_cuts,
    batch_rows,
    joint_loaders,
    row_numbers,
)
from ddpify.understanding.forms import Column, Layout, NumberKind
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import bounds, columns, dimensions, relative_ranks
from ddpify.understanding.syntax import indices_of
from ddpify.understanding.values import (
    NO_ROWS,
    Data,
    Instance,
    Value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_OF_SEVERAL = (Layout.STACKED, Layout.INTERLEAVED)


@record
class _Index:
    """An index along the dimension of a rank's rows.

    Attributes:
        part: It, as it is written.
        kind: See ``index_kinds.index_kind``.
        index: Its value; not known for a slice.
    """

    run: RunState
    node: cst.Subscript
    atom: Data
    part: cst.BaseSlice
    kind: str
    index: Value

    @property
    def shown(self) -> cst.BaseExpression:
        """The expression of an index that is no slice."""
        assert isinstance(self.part, cst.Index)
        return self.part.value

    @property
    def counted(self) -> bool:
        """Whether it counts rows, as a loop over their number does."""
        return bool(self.index.positions)

    @property
    def is_one_row(self) -> bool:
        """Whether it is a number that is known, so that one row is left."""
        known = isinstance(self.index.constant(), int)
        return self.kind == "index" and known and not self.atom.opaque


def indexed(run: RunState, node: cst.Subscript, atom: Data) -> Data:
    """Rows that are picked by position are no longer a shard; whole rows stay one."""
    before = atom.ndim
    batch_rows.note_indices(run, node)
    _count_other_sizes(run, node, atom)
    ask_for_others(run, node, [atom])
    left = dimensions_left(run, node, atom)
    unsure = _may_take_rows(run, node, atom)
    relative = relative_ranks.further(atom, _added(run, node))
    single = leaves_one_each(run, node, atom)
    added = any(index_kind(run, element.slice)[0] == "new" for element in node.slice[1:])
    before_rows = len(node.slice) <= atom.dim or _takes_one_step(run, node, atom)
    column = columns.widened(atom) if added else atom.column if before_rows else Column.NONE
    if atom.ndim in (0, 2) and len(node.slice) == 2 and is_one_wide(run, node.slice[1].slice):
        column = Column.WRITTEN
    atom = replace(atom, ndim=left, one_each=single, relative=relative, column=column)
    return _of_unknown_place(run, node, atom) if unsure else _by_parts(run, node, atom, before)


def _takes_one_step(run: RunState, node: cst.Subscript, atom: Data) -> bool:
    """Whether this is ``states[:, -1]``, which leaves a column of a column for each time step.

    Where the number of dimensions is not known, the last one is taken for a time step.
    """
    if len(node.slice) != 2 or atom.dim != 0:
        return False
    kind, index = index_kind(run, node.slice[1].slice)
    place = index.constant()
    one = kind == "index" and isinstance(place, int)
    return one and (atom.ndim > 2 or (not atom.ndim and place == -1))


def _added(run: RunState, node: cst.Subscript) -> int | None:
    """How many dimensions an index adds, or takes away; None where that is not known."""
    added = 0
    for element in node.slice:
        kind, index = index_kind(run, element.slice)
        one = kind == "index" and takes_one(run, element.slice, index)
        if one is None:
            return None
        added += (kind == "new") - one
    return added


def _by_parts(run: RunState, node: cst.Subscript, atom: Data, ndim: int) -> Data:
    """What the parts of an index take, one after the other, of so many dimensions; 0: unknown."""
    dim = 0
    for element in node.slice:
        kind, index = index_kind(run, element.slice)
        if kind == "ellipsis":
            stands_for = left_open(run, node, ndim)
            if not ndim or dim <= atom.dim < dim + stands_for:
                return replace(atom, definition_sites=frozenset())
            dim += stands_for
        elif kind == "new":
            atom = replace(atom, dim=atom.dim + (dim <= atom.dim))
            dim += 1
        elif dim == atom.dim:
            return _index_rows(run, node, atom, element.slice, kind, index)
        elif kind == "index" and reaches_rows(index, atom.dim - dim):
            return _left_of_steps(run, node, atom, dim)
        else:
            one = kind == "index" and takes_one(run, element.slice, index)
            if one is None:
                return _of_unknown_place(run, node, atom)
            if one:
                atom = replace(atom, dim=atom.dim - 1, several=False)  # that dimension is gone
            dim += not one
    return _all_rows(run, node, atom)


def _left_of_steps(run: RunState, node: cst.Subscript, atom: Data, dim: int) -> Data:
    """What a mask leaves of each time step, one after the other, from a dimension on."""
    if run.collating or dim:
        return replace(_of_unknown_place(run, node, atom), dim=dim, opaque=False)
    names = atom.names or frozenset({node.value})
    left = replace(atom, definition_sites=frozenset(), names=names, form=Layout.MASKED, dim=0)
    return replace(left, ndim=0, parted=True)


def ask_for_others(run: RunState, node: cst.Subscript, tensors: Sequence[Data]) -> None:
    """Ask for numbers that samples made where they take a place in every row: ``x[:, y[0]]``."""
    kinds = [index_kind(run, element.slice) for element in node.slice]
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


def _may_take_rows(run: RunState, node: cst.Subscript, atom: Data) -> bool:
    """Whether what stands behind an ellipsis may take some of the rows.

    How many dimensions there are is not known.
    """
    kinds = [index_kind(run, element.slice)[0] for element in node.slice]
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
    kinds = [index_kind(run, element.slice)[0] for element in node.slice]
    for number, element in enumerate(node.slice):
        before = kinds[:number]
        at = number - before.count("new")
        if kinds[number] == "slice" and ("ellipsis" in before or at != atom.dim):
            bounds.count_numbers(run, bounds.written(element.slice))


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
        kept = atom.form if atom.form in _OF_SEVERAL else Layout.TENSOR
    return replace(atom, definition_sites=frozenset(), form=kept)


def is_plain_batch(data: Data) -> bool:
    """Whether these are a rank's rows, one after the other."""
    rows = data.placement is Placement.SHARD and data.form is Layout.TENSOR
    return rows and data.dim == 0 and not data.opaque


def _index_rows(
    run: RunState, node: cst.Subscript, atom: Data, part: cst.BaseSlice, kind: str, index: Value
) -> Data:
    """What an index along the dimension of the rows takes."""
    at = _Index(run, node, atom, part, kind, index)
    known = first_answer(_RULES, at)
    return _picked_row(at) if known is None else known


# ---------------------------------------------------------------------- rules of an index of rows
def _all_of_them(at: _Index) -> Data | None:
    return _all_rows(at.run, at.node, at.atom) if at.kind == "whole" else None


def _as_many(at: _Index) -> Data | None:
    """As many rows as a rank has, from the first on, of which a rank has no others."""
    run, atom = at.run, at.atom
    counts = bounds.counted(run, at.node)
    masked = atom.ragged and not atom.segments
    if not counts or masked or bounds.begins_later(run, at.part):
        return None
    if atom.several and atom.dim == 0 and atom.form is not Layout.INTERLEAVED:
        return None  # the first rows are not the first samples'
    several = atom.form is Layout.STACKED and not _is_first_piece(at, counts)
    form = Layout.STACKED if several else Layout.TENSOR
    left = replace(atom, definition_sites=frozenset(), form=form, segments=())
    if not joint_loaders.unequal(run, atom.loaders, atom.loaders):
        return left
    return _of_several_loaders(at.part, left, atom.segments, counts[0])


def _is_first_piece(at: _Index, counts: Sequence[Data]) -> bool:
    """Whether ``both[: len(x)]`` leaves the first of several tensors under each other."""
    from_first = isinstance(at.part, cst.Slice) and at.part.lower is None
    return from_first and all(one.form is NumberKind.NUMBER for one in counts)


def _with_numbers_of_all(at: _Index) -> None:
    """Demand bounds that cut the rows of the whole batch."""
    bounds.count_numbers(at.run, bounds.written(at.part))
    for bound in bounds.written(at.part):
        made = (one for one in at.run.seen(bound).data if _is_of_samples(one))
        at.run.demand(bound, value(*made), uses.AN_INDEX)


def _cut(at: _Index) -> Data | None:
    return batch_cuts.cut(at.run, at.node, at.atom, at.part)


def _in_another_order(at: _Index) -> Data | None:
    """By a permutation of the batch."""
    held = (a for a in at.index.atoms if isinstance(a, Data))
    if not any(a.form is Layout.PERMUTATION for a in held):
        return None
    return regrouped(at.run, at.node, at.node.value, at.atom)


def _at_positions_of_all(at: _Index) -> Data | None:
    """By positions among the rows of all ranks, or by rows in another order."""
    gathered = _positions_of_all(at.index, at.node)
    own = indices_as_tensors(at.run, at.node)
    if _are_counted_elsewhere(at, own):
        return _of_all(at, own)
    if not tensor_pairs.beside_replicated(at.run, [(at.node.value, at.atom), *gathered, *own]):
        return None
    return replace(at.atom.placed(Placement.REPLICATE), form=Layout.GATHERED)


def indices_as_tensors(run: RunState, node: cst.Subscript) -> list[tuple[cst.BaseExpression, Data]]:
    """What the parts of an index hold, with lists of positions taken for tensors of them."""
    return [(one, data) for one, index in operands(run, node) for data in index.data]


def _are_counted_elsewhere(at: _Index, own: Sequence[tuple[cst.BaseExpression, Data]]) -> bool:
    """Whether positions are none of a rank's own rows: they take a place within each of these.

    So are those that are computed, where a forward has several rows for each sample.
    """
    if at.run.collating or not at.run.module.editable:
        return False
    within = any(data.counting and shown is not at.shown for shown, data in own)
    computed = [data for _, data in own if data.form is NumberKind.COMPUTED]
    return within or any(tensor_pairs.lie_elsewhere(at.run, data, at.atom) for data in computed)


def _of_all(at: _Index, own: Sequence[tuple[cst.BaseExpression, Data]]) -> Data:
    """What positions among the rows of all ranks take of these."""
    for shown, data in own:
        at.run.demand(shown, value(data), uses.ALL_ROWS)
    at.run.demand(at.node.value, value(at.atom), uses.A_STATISTIC)
    return replace(at.atom.placed(Placement.REPLICATE), form=Layout.GATHERED, flat=True)


def _with_global_positions(at: _Index) -> None:
    """Demand positions that are those of the whole batch."""
    run = at.run
    located = not run.frames_forward() or (is_plain_batch(at.atom) and run.module.editable)
    for numbers in (d for d in at.index.data if d.form is NumberKind.COMPUTED and located):
        run.demand(at.shown, value(numbers), uses.POSITIONS)
    for order in (d for d in at.index.data if d.form is Layout.ORDER and d.definition_sites):
        of_all = Data(Placement.ROWS, order.loaders, order.definition_sites)
        if not run.frames_forward():
            run.demand(at.shown, value(of_all), uses.AN_INDEX)
    for one in at.index.data if at.kind == "index" else ():
        of_a_row = one.placement is Placement.ROWS and not run.frames_forward()
        if one.placement is Placement.COUPLED or of_a_row:
            run.demand(at.shown, value(one), uses.AN_INDEX)


def _one_sample(at: _Index) -> Data | None:
    """In a forward, a round of a loop over samples: each time, one sample's."""
    if not at.run.frames_forward() or not loop_indices.is_of_one_sample(at.run, at.part):
        return None
    return replace(at.atom, definition_sites=frozenset(), dim=NO_ROWS)


def _by_positions(at: _Index) -> Data | None:
    return taken_rows.by_positions(at.run, at.node, at.atom, at.index)


def _by_rows(at: _Index) -> Data | None:
    """By a mask or positions that a rank's rows make."""
    if not any(d.placement is Placement.SHARD for d in at.index.data):
        return None
    # A forward treats each sample alone: it puts rows in order, and back again.
    in_forward = at.run.frames_forward()
    forms = (NumberKind.RANGE, Layout.ORDER) if in_forward else (NumberKind.RANGE,)
    each = any(d.form in forms for d in at.index.data)
    form = Layout.TENSOR if each else Layout.MASKED
    if each and at.atom.form in _OF_SEVERAL:
        form = at.atom.form
    parted = at.atom.parted or (at.atom.form is Layout.INTERLEAVED and not each)  # by time steps
    return replace(at.atom, definition_sites=frozenset(), form=form, parted=parted)


def _by_a_counter(at: _Index) -> Data | None:
    """In a forward, the sample at which a loop is."""
    if not (at.counted and at.kind == "index" and at.atom.dim == 0):
        return None
    return single_samples.taken(at.run, at.atom, at.part) if at.run.frames_forward() else None


def _by_a_known_position(at: _Index) -> Data | None:
    """The same row, or rows, of each batch: among those of all ranks."""
    if at.counted or at.kind not in ("index", "slice"):
        return None
    index = at.index if at.kind == "index" else None
    return across_samples.taken_by_position(at.run, at.node, at.atom, index)


def _not_of_the_batch(at: _Index) -> Data | None:
    """An element of an unseen container.

    In a forward, which treats each sample alone, the dimension that is indexed is not the batch.
    """
    if at.run.collating and not at.counted:
        at.run.mixes(at.node, at.atom)
    if not (at.atom.opaque and not at.counted) and not at.run.frames_forward():
        return None
    form = Layout.ROW if at.is_one_row else at.atom.form
    return replace(at.atom, definition_sites=frozenset(), form=form)


_RULES = (
    _all_of_them,
    _as_many,
    _with_numbers_of_all,
    _cut,
    _in_another_order,
    _at_positions_of_all,
    _with_global_positions,
    _one_sample,
    _by_positions,
    _by_rows,
    _by_a_counter,
    _by_a_known_position,
    _not_of_the_batch,
)
"""The first that says something of an index is right; any other picks a row by its position."""


def _picked_row(at: _Index) -> Data:
    """A row by a position, which is one in the whole batch."""
    run, node = at.run, at.node
    bounds.count_parts(run, node)
    for one in at.index.positions:
        run.facts.rows.positions.setdefault(node.value, set()).update(one.definition_sites)
    _note_in_turn(at)
    # Where the whole batch could be gathered: for some rows, that is before they got this order.
    sites = at.atom.names if at.atom.parted else frozenset({node.value})
    picked = replace(
        at.atom.placed(Placement.ROWS),
        definition_sites=sites,
        parted=False,
        form=Layout.ROW if at.is_one_row else Layout.TENSOR,
    )
    return single_samples.at(at.part, picked) if at.kind == "index" else picked


def _note_in_turn(at: _Index) -> None:
    """Note whether a row is always that of the sample which a round of a loop over all is for."""
    each = loop_indices.counts_each_row(at.run, at.part) and not row_numbers.are_shifted(at.index)
    known = at.run.facts.rows.in_turn
    known[at.node.value] = known.get(at.node.value, True) and each


def _positions_of_all(index: Value, node: cst.Subscript) -> list[tuple[cst.BaseExpression, Data]]:
    """Positions of rows of the whole batch, in an index."""
    held = [a for a in index.atoms if isinstance(a, Data) and not a.placement.local]
    return [(node, a) for a in held if a.form is Layout.GATHERED]


def _of_several_loaders(
    part: cst.BaseSlice, left: Data, segments: tuple[frozenset[Instance], ...], count: Data
) -> Data:
    """What the size of the first batch cuts off several under each other, or leaves of them."""
    first, *rest = segments or (frozenset[Instance](),)
    if count.form is not NumberKind.NUMBER or count.loaders != first:
        return left  # of any of them
    if not isinstance(part, cst.Slice) or (part.lower is None) is (part.upper is None):
        return left
    if part.lower is None:
        return replace(left, loaders=first)
    if len(set(rest)) > 1:
        return replace(left, form=Layout.MASKED, segments=tuple(rest))
    form = Layout.STACKED if len(rest) > 1 else Layout.TENSOR
    return replace(left, form=form, loaders=rest[0])


def regrouped(
    run: RunState, node: cst.BaseExpression, rows: cst.BaseExpression, atom: Data
) -> Data:
    """Rows of the batch in another order: this rank's, once the whole batch is put in order."""
    if not run.module.editable or atom.form is Layout.PERMUTATION:
        return atom.placed(Placement.COUPLED)
    return across_samples.on_all_rows(run, node, rows, atom)
