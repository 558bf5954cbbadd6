"""Tensors that are joined: along the batch, a list of rows, or beside one another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import record, replace
from ddpify.understanding import uses
from ddpify.understanding.answers import first_answer
from ddpify.understanding.arguments import Keywords
from ddpify.understanding.arithmetic import (
    across_samples,
    single_samples,
    tensor_pairs,
)
from ddpify.understanding.batching import (
    collating,
    handmade_batches,
    joint_loaders,
    per_sample_lists,
    queues,
)
from ddpify.understanding.forms import Layout, NumberKind
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import bounds, columns, dimensions
from ddpify.understanding.values import (
    NO_ROWS,
    REPLICATED,
    UNKNOWN,
    Atom,
    Const,
    Data,
    Instance,
    Number,
    ReplicatedTensor,
    Tup,
    Value,
    deep_atoms,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


_NUMBERS = (Placement.MEAN, Placement.SUM, Placement.WEIGHTED, Placement.COUPLED)
_ROWS = (Placement.SHARD, Placement.ROWS)


def _joined_of_all(
    run: RunState, short: str, pieces: Value, held: Sequence[Data], dim: object
) -> Data | None:
    """The rows of all ranks that a list holds one by one; None for other lists.

    ``dim``: the dimension along which they are joined; ``cat`` joins the elements of others.
    """
    if dim != 0 and short != "stack":
        return None
    lists = pieces.of(Instance)
    each = any(a in run.of_all_ranks for a in lists)
    if not each and not any(a in run.of_some_samples for a in lists):
        return None
    rows = held[0] if held else Data(Placement.REPLICATE)
    # An item that cat() joins may have several rows.
    flat = not each or short != "stack"
    place = dim if isinstance(dim, int) and dim > 0 else 0
    return replace(rows.placed(Placement.REPLICATE), form=Layout.GATHERED, dim=place, flat=flat)


def _place_among_rows(run: RunState, node: cst.BaseExpression, joined: Sequence[Data]) -> None:
    """Numbers that count rows stand beside rows in a tensor as those of all ranks."""
    counting = [data for data in joined if data.counting]
    rows = [data for data in joined if data.placement is Placement.SHARD and not data.counting]
    tensor_pairs.place_among_all(run, [(node, value(*counting)), (node, value(*rows))])


@record
class _Joining:
    """Tensors of a rank's rows that are put together.

    Attributes:
        short: The function's name.
        pieces: What holds them.
        inner: They.
        given: What says along which dimension.
        dim: That dimension; ... where it is not known.
    """

    run: RunState
    node: cst.BaseExpression
    short: str
    pieces: Value
    inner: list[Data]
    given: Value
    dim: object

    @property
    def worst(self) -> list[Data]:
        """Those that are more than a rank's rows."""
        return [d for d in self.inner if d.placement is not Placement.SHARD]

    @property
    def first(self) -> Data:
        """The one that says what the result is."""
        one = (self.worst or self.inner)[0]
        return replace(one, taken_by=one.fixed_places)  # which all have in common

    @property
    def along_others(self) -> bool:
        """Whether they are put beside each other."""
        return self.dim not in (0, ...)

    def shown(self) -> list[tuple[cst.BaseExpression, Value]]:
        """The pieces that the call names."""
        return queues.pieces(self.run, self.node)

    def of_all_ranks(self) -> Value:
        """The result, once all ranks hold what it is made of."""
        gathered = self.first.placed(Placement.REPLICATE)
        return value(replace(gathered, form=Layout.GATHERED))


def concatenated(
    run: RunState,
    node: cst.BaseExpression,
    short: str,
    args: list[Value],
    kwargs: Keywords,
) -> Value:
    """Tensors joined along a dimension; along the batch, they are a list of rows."""
    pieces = args[0] if args else kwargs.get("tensors", UNKNOWN)
    inner = [a for a in deep_atoms(pieces) if isinstance(a, Data) and a.placement.local]
    given = args[1] if len(args) > 1 else kwargs.get("dim") or kwargs.get("axis") or UNKNOWN
    dim = given.constant() if given else 0
    if not inner:
        return _of_replicated(run, short, pieces, dim)
    if all(data.form is Layout.PERMUTATION for data in inner):  # which is of all rows already
        return value(replace(inner[0].placed(Placement.REPLICATE), form=Layout.GATHERED, flat=True))
    _place_among_rows(run, node, inner)
    dim = dimensions.place(dim, inner[0].ndim + (inner[0].ndim > 0 and short == "stack"))
    joining = _Joining(run, node, short, pieces, inner, given, dim)
    known = first_answer(_OF_ALL_PIECES, joining)
    if known is not None:
        return known
    beside = replace(joining, inner=_beside_rows(run, node, inner))
    known = first_answer(_OF_ROWS, beside)
    return value(_with_width(beside, _rows_joined(beside))) if known is None else known


def _of_replicated(run: RunState, short: str, pieces: Value, dim: object) -> Value:
    """What is put together of what all ranks hold."""
    whole = [a for a in deep_atoms(pieces) if isinstance(a, Data)]
    joined = _joined_of_all(run, short, pieces, whole, dim)
    if joined is not None:
        return value(joined)
    several = next((a for a in whole if a.names), None)
    if several is not None and dim in (0, ...) and _is_filled(pieces):
        # A loop may have put something of each of the samples into it.
        of_all = several.placed(Placement.REPLICATE)
        return value(replace(of_all, form=Layout.GATHERED, opaque=True, dim=0))
    if any(isinstance(a, Instance) and a.type == "list" for a in pieces.atoms):
        whole = [_of_positions(a) for a in whole]
    sites = frozenset(site for a in whole if a.reduced for site in a.definition_sites)
    first = [replace(a, definition_sites=sites) if a.reduced else a for a in whole[:1]]
    if short == "stack":
        first = [_behind_another(a, dim) for a in first]
    return value(*(replace(a, flat=a.flat or a.form is Layout.GATHERED) for a in first))


def _is_filled(pieces: Value) -> bool:
    """Whether a collection has as many items as a loop has put into it."""
    lengths = {len(one.items) for one in pieces.of(Tup)}
    lists = (one for one in deep_atoms(pieces) if isinstance(one, Instance))
    return len(lengths) > 1 or any("*" in one.attributes for one in lists)


def _behind_another(rows: Data, dim: object) -> Data:
    """``torch.stack([x, y])`` of the rows of all ranks, which lie along the next dimension."""
    whole = rows.form is Layout.GATHERED and not rows.opaque
    behind = whole and isinstance(dim, int) and 0 <= dim <= rows.dim
    return replace(rows, dim=rows.dim + 1) if behind else rows


# ---------------------------------------------------------------------- rules for all pieces
def _along_unknown(joining: _Joining) -> Value | None:
    """Along a dimension that may be that of their samples."""
    run, node, rows, dim = joining.run, joining.node, joining.inner[0], joining.dim
    named = {place for d in dimensions.named_dimensions((joining.given,), {}) for place in d}
    unknown = joining.short == "stack" and dimensions.may_be_of_rows(rows, named - {-1, ...})
    unknown = unknown or (isinstance(dim, int) and dim < -1)
    if not unknown or rows.placement is not Placement.SHARD:
        return None
    shown = joining.shown()
    if shown:
        return across_samples.coupled_operands(run, node, shown)
    packed = replace(rows, definition_sites=frozenset(), form=Layout.PACKED)
    run.demand(node, value(packed), uses.A_STATISTIC)
    return REPLICATED


def _of_a_queue(joining: _Joining) -> Value | None:
    return queues.kept(joining.run, joining.node, joining.inner)


def _samples_under_replicated(joining: _Joining) -> Value | None:
    """Samples under what all ranks hold: those of all ranks."""
    run, node, rows = joining.run, joining.node, joining.inner[0]
    if _adds_columns(joining) or not _under_replicated(run, node, rows, joining.dim):
        return None
    if run.collating:
        return collating.mixed(run, node, rows, known=False, rows=True)
    for piece, held in joining.shown():
        run.demand(piece, value(*held.data), uses.A_STATISTIC)
    gathered = rows.placed(Placement.REPLICATE)
    return value(replace(gathered, form=Layout.GATHERED, flat=True))


def _of_several_batches(joining: _Joining) -> Value | None:
    """Rows of an earlier batch under those of the current one, which may be shared otherwise."""
    run, rows = joining.run, [d for d in joining.inner if d.placement is Placement.SHARD]
    under = joining.dim == 0 and joining.short != "stack" and not run.collating
    if not under or run.frames_forward() or len({d.past for d in rows}) < 2:
        return None
    loaders = {loader for d in rows for loader in d.loaders}
    if all(joint_loaders.equally_large(frozenset({a}), in_step=False) for a in loaders):
        return None
    for piece, held in joining.shown():
        for data in held.data:
            run.demand(piece, value(data), uses.A_KEPT_COLLECTION)
    return joining.of_all_ranks() if joining.shown() else None


def _of_several_kinds(joining: _Joining) -> Value | None:
    """A mean beside a sum, or a sum beside what all ranks hold: no one reduction suits them."""
    run, node, inner = joining.run, joining.node, joining.inner
    kinds = {d.placement for d in inner}
    whole = [a for a in deep_atoms(joining.pieces) if isinstance(a, Number) or a in inner]
    beside = len(whole) > len(inner) and Placement.SUM in kinds
    tensors = [a for a in deep_atoms(joining.pieces) if isinstance(a, Data)]
    beside |= any(map(tensor_pairs.is_loss_of_all, tensors))
    if not all(kind.partial for kind in kinds) or (len(kinds) == 1 and not beside):
        return None
    shown = [(piece, held) for piece, held in joining.shown() if held.data]
    if not shown and isinstance(node, cst.Call) and node.args:
        unlike = Data(Placement.COUPLED, inner[0].loaders, form=Layout.PACKED)
        run.demand(node.args[0].value, value(unlike), uses.ARITHMETIC)
    for piece, held in shown:
        run.demand(piece, value(*held.data), uses.ARITHMETIC)
    return value(replace(inner[0].placed(Placement.REPLICATE), loaders=inner[0].loaders))


def _of_others(joining: _Joining) -> Value | None:
    """One sample beside another that is always the same, as ``torch.stack([x[i], x[0]])``."""
    shown = [(piece, data) for piece, held in joining.shown() for data in held.data]
    return single_samples.meet_others(joining.run, joining.node, shown)


_OF_ALL_PIECES = (
    _along_unknown,
    _of_a_queue,
    _samples_under_replicated,
    _of_several_batches,
    _of_several_kinds,
    _of_others,
)
"""Rules for what is put together, numbers too; the first that applies is right."""


# ---------------------------------------------------------------------- rules for rows
def _within_one_sample(joining: _Joining) -> Value | None:
    """In a collate function, what a sample is put together of: ``cat([text, padding])``."""
    one = joining.inner[0]
    own = all(d.dim == NO_ROWS and d.taken_by == one.taken_by for d in joining.inner)
    if not (joining.run.collating and own and joining.shown()):
        return None
    return value(replace(joining.first, taken_by=one.taken_by))


def _of_samples(joining: _Joining) -> Value | None:
    """One sample after the other."""
    alone = _taken_one_by_one(joining.pieces, joining.first)
    return None if alone is None else value(collating.joined(alone, joining.short, joining.dim))


def _under_gathered(joining: _Joining) -> Value | None:
    """Under the rows of all ranks."""
    held = (a for a in deep_atoms(joining.pieces) if isinstance(a, Data))
    if joining.dim != 0 or not any(a.form is Layout.GATHERED for a in held):
        return None
    for expression, one in joining.shown():
        for rows in one.data:
            joining.run.demand(expression, value(rows), uses.A_KEPT_COLLECTION)
    if not joining.shown():
        _ask_where_named(joining)
    return joining.of_all_ranks()


def _ask_where_named(joining: _Joining) -> None:
    """Ask for the rows of all ranks, of pieces in a list that is not written out here.

    The list holds some already: it cannot be gathered, but what was put into it can.
    """
    run, node = joining.run, joining.node
    listed = node.args[0].value if isinstance(node, cst.Call) and node.args else node
    for rows in joining.inner:
        run.demand(listed, value(rows.placed(Placement.COUPLED)), uses.ALL_ROWS)


def _beside_replicated(joining: _Joining) -> Value | None:
    """Beside what all ranks hold."""
    beside = joining.along_others or joining.short in ("stack", "hstack")
    shown = tensor_pairs.held_tensors(joining.shown() if beside else [])
    of_all = tensor_pairs.beside_replicated(joining.run, shown)
    return joining.of_all_ranks() if of_all else None


def _of_one_sample(joining: _Joining) -> Value | None:
    """In a collate function, each sample's one row."""
    plain = {d.form for d in joining.inner} == {Layout.TENSOR}
    if not (joining.run.collating and plain) or _shown_pieces(joining.run, joining.node):
        return None
    return value(joining.first.placed(joining.first.placement))


def _with_batches_by_hand(joining: _Joining) -> None:
    """Say which batches made by hand the rows meet."""
    run, short = joining.run, joining.short
    chosen = joining.node in run.choices.batches and handmade_batches.trained_on(run, joining.inner)
    beside = joining.along_others or short in ("stack", "hstack")
    if chosen and (joining.along_others or short == "hstack"):
        handmade_batches.meet(run, joining.shown() if beside else [], surely=True)
    if joining.dim == 0 and short in ("cat", "concat", "concatenate", "vstack"):
        handmade_batches.meet(run, joining.shown())  # they are under each other on each rank


def _of_counted(joining: _Joining) -> Value | None:
    """Each is reduced by itself, where its denominator is known."""
    counted = all(d.counted and d.definition_sites for d in joining.inner)
    return value(*joining.inner) if counted else None


def _of_worse(joining: _Joining) -> Value | None:
    """What is more than a rank's rows stays that."""
    if not joining.worst:
        return None
    rows = (d for d in joining.worst if d.placement is Placement.ROWS)
    sites = frozenset(site for d in rows for site in d.definition_sites)
    first = joining.first
    return value(replace(first.placed(first.placement), definition_sites=sites))


_OF_ROWS = (
    _within_one_sample,
    _of_samples,
    _under_gathered,
    _beside_replicated,
    _of_one_sample,
    _with_batches_by_hand,
    _of_counted,
    _of_worse,
)
"""Rules for what stands beside global numbers; where none applies, all are a rank's rows."""


# ---------------------------------------------------------------------- what they ask
def _of_positions(number: Data) -> Data:
    """What is put together of one number for each position: as many as there are rows."""
    if number.is_position:
        return replace(number, placement=Placement.SHARD, form=NumberKind.COMPUTED)
    return replace(number, form=Layout.GATHERED) if number.form is NumberKind.PLACE else number


def _under_replicated(run: RunState, node: cst.BaseExpression, rows: Data, dim: object) -> bool:
    """Whether samples are put under what all ranks hold: together they are no batch."""
    plain = rows.placement is Placement.SHARD and rows.form is Layout.TENSOR and not rows.opaque
    inside = run.module.editable or run.collating
    if not (plain and inside and dim == rows.dim != NO_ROWS):
        return False
    shown = queues.pieces(run, node)
    return any(
        held.atoms and (all(map(_is_replicated, held.atoms)) or _is_cut(run, piece, held))
        for piece, held in shown
    )


def _adds_columns(joining: _Joining) -> bool:
    """Whether pieces stand beside each other: ``hstack`` puts single numbers under each other."""
    if joining.short != "hstack":
        return joining.short == "stack"
    ndim = joining.inner[0].ndim
    return ndim > 1 or (not ndim and joining.run.choices.by_hand)


def _is_cut(run: RunState, piece: cst.BaseExpression, held: Value) -> bool:
    """Whether this is a fixed number of rows of a batch that is made by hand, as ``x[:1]`` is."""
    return bool(held.of(ReplicatedTensor)) and bounds.is_fixed(run, piece)


def _is_replicated(piece: Atom) -> bool:
    """Whether this is what all ranks hold, without a row for each sample: a tensor or a list."""
    if isinstance(piece, Instance) and piece.type == "list":
        held = [one for item in piece.attributes.values() for one in item.atoms]
        return bool(held) and all(isinstance(one, (Const, Number)) for one in held)
    return isinstance(piece, Number) or (isinstance(piece, Data) and piece.reduced)


def _beside_rows(run: RunState, node: cst.BaseExpression, inner: list[Data]) -> list[Data]:
    """The pieces without those that must be the same number on every rank beside a rank's rows."""
    shown = [(e, d) for e, one in queues.pieces(run, node) for d in one.data]
    numbers = [(e, d) for e, d in shown if d.placement in _NUMBERS]
    if not numbers or not any(d.placement in _ROWS for _, d in shown):
        return inner
    for expression, number in numbers:
        run.demand(expression, value(number), uses.ARITHMETIC)
    return [d for d in inner if d.placement not in _NUMBERS]


def _taken_one_by_one(pieces: Value, first: Data) -> Data | None:
    """The samples that the pieces are, one each; None where they are several rows each."""
    items = [per_sample_lists.of_list(a) for a in pieces.of(Instance)]
    if items and items[0] is not None:
        return items[0]
    alone = first.form is Layout.LISTED and first in pieces.atoms
    return first if alone or first.dim == NO_ROWS or first.form is Layout.SAMPLES else None


def _rows_joined(joining: _Joining) -> Data:
    """Several tensors of this rank's rows as one."""
    run, node, inner, dim = joining.run, joining.node, joining.inner, joining.dim
    first, sources = inner[0], frozenset(loader for d in inner for loader in d.loaders)
    placed = replace(first.placed(first.placement), loaders=sources)
    unequal = joint_loaders.unequal(run, sources, sources)
    run.facts.batches.joined |= sources if unequal else set()
    ragged = any(d.ragged for d in inner)
    if unequal or ragged:
        parts = frozenset() if ragged or dim != 0 else _shown_pieces(run, node)
        segments = () if ragged or dim != 0 else _segments(run, node)
        placed = replace(placed, form=Layout.MASKED, definition_sites=parts, segments=segments)
    if all(d.counting for d in inner):
        counting = frozenset(definition_site for d in inner for definition_site in d.counting)
        return replace(placed, form=NumberKind.COMPUTED, definition_sites=counting)
    return _under_each_other(joining, placed) or placed


def _with_width(joining: _Joining, joined: Data) -> Data:
    """Rows that are put together, with whether there is one number for each of them."""
    number = len(joining.shown())
    stacked = joining.short == "stack"
    column = columns.joined(joining.inner, number, joining.dim, stacked=stacked)
    known = {one.ndim for one in joining.inner}
    ndim = known.pop() if len(known) == 1 else 0
    if joined.ndim or not ndim or (ndim == 1 and not stacked):
        return replace(joined, column=column)  # hstack() and the like make matrices of some
    return replace(joined, column=column, ndim=ndim + stacked)


def _segments(run: RunState, node: cst.BaseExpression) -> tuple[frozenset[Instance], ...]:
    """The loaders of each element of ``torch.cat((a, b))``; none where it is not written out."""
    return tuple(
        frozenset(loader for data in held.data for loader in data.loaders)
        for _, held in queues.pieces(run, node)
    )


def _under_each_other(joining: _Joining, placed: Data) -> Data | None:
    """Rows whose place among those of the batch changes; None where each stays in its place."""
    run, node, short, dim = joining.run, joining.node, joining.short, joining.dim
    first, pieces = joining.inner[0], joining.pieces
    rows = all(a.form is Layout.TENSOR and not a.opaque for a in pieces.data)
    if short == "stack" and dim == first.dim == 0 and pieces.data and rows:
        return None  # the rows of a tensor, or a list with an item for each of them
    if short == "stack" and isinstance(dim, int) and 0 <= dim <= first.dim:
        return replace(placed, dim=first.dim + 1, several=True)
    ragged = any(d.ragged for d in joining.inner)
    if joining.along_others or short == "stack" or (short == "hstack" and not ragged):
        return None
    if queues.is_one_piece(node) or {d.form for d in joining.inner} == {Layout.ROW}:
        return None  # a copy of a tensor, or one of each sample
    if placed.ragged:
        return _parted(run, node, pieces, placed) if ragged else None
    return replace(placed, form=Layout.STACKED, definition_sites=_shown_pieces(run, node))


def _parted(run: RunState, node: cst.BaseExpression, pieces: Value, joined: Data) -> Data:
    """What masks left of several tensors: in the order of one process if each is gathered."""
    shown = [element for element, held in queues.pieces(run, node) if held.data]
    lists = pieces.of(Instance)
    if len(shown) == 1 or not (shown or lists):
        return joined
    made = [a.site.elt for a in lists if isinstance(a.site, cst.BaseSimpleComp)]
    put_in = [name for a in deep_atoms(pieces) if isinstance(a, Data) for name in a.names]
    return replace(joined, names=frozenset(shown or made or put_in), parted=True)


def _shown_pieces(run: RunState, node: cst.BaseExpression) -> frozenset[cst.BaseExpression]:
    """The elements of ``torch.cat((a, b))``, each of which could be gathered by itself."""
    shown = queues.pieces(run, node)
    # What is joined is a tensor, whatever a loader gives.
    tensors = {Layout.TENSOR, Layout.BATCH, Layout.PART}
    rows = all({d.form for d in held.data} <= tensors for _, held in shown)
    return frozenset(element for element, held in shown if held.data) if rows else frozenset()
