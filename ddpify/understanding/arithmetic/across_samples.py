"""Operators that mix the samples of a batch, where the code asks for one along the batch dimension.

Such an operator needs the rows of all ranks. Where its result has a row for each sample, as that
of ``softmax(x, 0)`` or ``x.flip(0)``, each rank takes its own rows of it afterwards. Where it has
none, as that of ``x.norm()``, all ranks hold the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arithmetic import made_rows, parts_of_rows
from ddpify.understanding.arithmetic.tensor_dimensions import (
    KEEPING_DIMENSIONS,
    ORDERING,
    PAIRS,
    PARTING,
    SUMMING,
    may_mix_rows,
    mixes_rows,
)
from ddpify.understanding.arithmetic.tensor_dimensions import (
    OVER_A_DIMENSION as ALONG_A_DIMENSION,
)
from ddpify.understanding.batching import collating, current_batch
from ddpify.understanding.facts import Regrouped
from ddpify.understanding.forms import Layout, NumberKind
from ddpify.understanding.operators import results
from ddpify.understanding.operators.rules import Rule
from ddpify.understanding.operators.table import BATCH_FIRST_OF, LAST_OF, LAST_TOLD, MIXING, rule_of
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import bounds, dimensions
from ddpify.understanding.values import NO_ROWS, REPLICATED, Data, Tup, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

# As large as what they get, whether that is one matrix of samples or a matrix for each sample.
_SQUARE = frozenset("cholesky inv inverse matrix_exp matrix_power tril triu".split())
_APART = (Rule.ELEMENTWISE, Rule.PER_SAMPLE, Rule.BY_ARGUMENTS)
_OF_SAMPLES = (Layout.GATHERED, Layout.PERMUTATION, Layout.ORDER)
SORTING = ("sort", "argsort")  # which leave as many rows, whichever dimension they go along
KEPT = (
    KEEPING_DIMENSIONS
    - ORDERING
    - PARTING
    - frozenset("argpartition diff hfft ihfft irfft rfft".split())
)


def along_samples(
    run: RunState,
    node: cst.BaseExpression,
    name: str,
    operand: cst.BaseExpression,
    data: Data,
    rest: Sequence[Value],
    kwargs: Mapping[str, Value],
) -> Value | None:
    """What a function of a dimension gives in a forward, along the samples; None for others.

    Means and sums are left to the reductions over ranks.
    """
    if name in PARTING and parts_of_rows.parts(data, rest, kwargs):
        if parts_of_rows.are_joined(run, node):
            return value(replace(data, definition_sites=frozenset()))
        return parts_of_rows.of_all(run, node, operand, data)
    if name == "unbind" and parts_of_rows.one_by_one(data, rest, kwargs):
        return parts_of_rows.each(run, node, operand, data)
    if may_mix_rows(name, data, rest, kwargs):
        return _along_unknown(run, node, name, operand, data)
    if name in SUMMING or not mixes_rows(name, data, rest, kwargs):
        return None
    if name in KEPT & PAIRS:
        of_all_rows(run, operand, data)
        return value(Tup((_all_rows(data), _all_rows(data))))
    if name in KEPT and data.form in (Layout.TENSOR, Layout.STATE):
        return value(on_all_rows(run, node, operand, data))
    if name in (*PARTING, "unbind"):
        return None
    if name in ORDERING:
        return _in_order(run, name, operand, data)
    if run.collating and name in KEEPING_DIMENSIONS:
        return collating.mixed(run, node, data, known=False, rows=False)
    return of_all_rows(run, operand, data, pair=name in PAIRS)


def _along_unknown(
    run: RunState, node: cst.BaseExpression, name: str, operand: cst.BaseExpression, data: Data
) -> Value:
    """What goes along a dimension that may be that of the samples, or one of each of them."""
    if name in KEPT and name not in PAIRS and data.form in (Layout.TENSOR, Layout.STATE):
        return value(on_all_rows(run, node, operand, data))
    if name in SORTING and not run.collating:
        return _in_order(run, name, operand, data)
    made = coupled(run, node, operand, data)
    return perhaps_rows(name, made)


def perhaps_rows(name: str, made: Value) -> Value:
    """What may have rows of all ranks or none, where a function went along an unknown dimension."""
    atoms = (
        replace(one, flat=True, opaque=True)
        if isinstance(one, Data) and one.form is Layout.GATHERED
        else one
        for one in made.atoms
    )
    unknown = value(*atoms)
    return value(Tup((unknown, unknown))) if name in PAIRS else unknown


def _all_rows(data: Data) -> Value:
    return value(replace(data.placed(Placement.REPLICATE), form=Layout.GATHERED, dim=data.dim))


def _in_order(run: RunState, name: str, operand: cst.BaseExpression, data: Data) -> Value:
    """The samples of all ranks in order, and their order."""
    if name not in SORTING:
        return of_all_rows(run, operand, data, pair=True)
    run.demand(operand, value(data), uses.A_STATISTIC)
    return ordered(data, name)


def ordered(data: Data, name: str) -> Value:
    """What sorting the rows of all ranks gives: their order, behind the rows for ``sort``."""
    replicated = data.placed(Placement.REPLICATE)
    order = value(replace(replicated, form=Layout.PERMUTATION))
    rows = value(replace(replicated, form=Layout.GATHERED))
    return order if name == "argsort" else value(Tup((rows, order)))


def on_all_rows(
    run: RunState, node: cst.BaseExpression, rows: cst.BaseExpression, data: Data
) -> Data:
    """This rank's rows of what an expression makes of ``rows`` once those of all are gathered."""
    if run.collating:
        run.mixes(node, data)
        return replace(data.placed(Placement.SHARD), dim=data.dim, ndim=data.ndim)
    if data.parted:  # not in the order of the whole batch, where they are put together
        run.demand(rows, value(data), uses.A_STATISTIC)
        whole = replace(data.placed(Placement.REPLICATE), form=Layout.GATHERED)
        return replace(whole, flat=True, opaque=True)
    current_batch.used(run, node, [data])
    stacked = data.form is Layout.STACKED
    known = run.facts.rows.regrouped.get(node)
    dims = (known.dims if known is not None else frozenset()) | {data.dim}
    run.facts.rows.regrouped[node] = Regrouped(run.site(node), rows, stacked, dims)
    placed = replace(data.placed(Placement.SHARD), dim=data.dim)
    return replace(placed, form=Layout.STACKED) if stacked else placed


def of_all_rows(
    run: RunState, rows: cst.BaseExpression, data: Data, *, pair: bool = False
) -> Value:
    """What has no rows of its own: the same on all ranks, once the rows of all are gathered."""
    if run.collating:
        run.mixes(rows, data)
    run.demand(rows, value(data), uses.A_STATISTIC)
    return value(Tup((REPLICATED, REPLICATED))) if pair else REPLICATED


def by_rule(
    run: RunState,
    node: cst.BaseExpression,
    name: str,
    operand: cst.BaseExpression,
    data: Data,
    rest: Sequence[Value],
) -> Value | None:
    """What an operator that mixes samples whatever it is told makes of rows; None for others.

    So does one that no table lists, as far as anybody knows.
    """
    alone = data.dim == NO_ROWS or data.form is Layout.SAMPLES
    if not alone and (
        _is_no_batch_of(name, data) or _is_among_last(run, name, operand, data, rest)
    ):
        return coupled(run, node, operand, data)
    rule = rule_of(name)
    beside_weights = name == "cdist" and bool(rest) and not rest[0].data
    if alone or beside_weights or (rule is None and data.opaque) or rule in _APART:
        return None
    square = name in MIXING or name in _SQUARE
    if rule is Rule.OF_MATRICES and (data.ndim > 2 or data.dim > 1):
        return None
    if square and data.form is Layout.TENSOR and (run.module.editable or run.collating):
        return value(on_all_rows(run, node, operand, data))
    if run.collating:
        has_rows = name in results.WITH_ROWS
        known = has_rows or name in results.WITHOUT_ROWS
        return collating.mixed(run, node, data, known=known, rows=has_rows)
    if not run.frames_forward():
        return value(data.placed(Placement.COUPLED))
    run.demand(operand, value(data), uses.A_STATISTIC)
    gathered = replace(data.placed(Placement.REPLICATE), form=Layout.GATHERED, ndim=data.ndim)
    left = of_replicated(name, gathered)
    if left is None:
        return value(replace(gathered, ndim=0))
    return value(left) if left.form is Layout.GATHERED else REPLICATED


def of_replicated(name: str, rows: Data) -> Data | None:
    """What an operator that couples samples makes of those of all ranks; None for others.

    It may have a row for each of them, and be several tensors, unless it is known not to be.
    """
    rule = rule_of(name)
    matrices = rule is Rule.OF_MATRICES and name not in _SQUARE
    known = name in ALONG_A_DIMENSION or (rule not in (None, Rule.COUPLING) and not matrices)
    if known or name in results.WITH_ROWS:
        return None
    replicated = replace(rows.placed(Placement.REPLICATE), definition_sites=rows.definition_sites)
    one = name in results.OF_A_MATRIX and rows.ndim == 2
    if one or name in results.WITHOUT_ROWS or rows.form is not Layout.GATHERED:
        return replicated
    several = rule is None or name in results.OPTIONS
    return replace(replicated, form=Layout.GATHERED, flat=True, opaque=several)


def _is_no_batch_of(name: str, data: Data) -> bool:
    """Whether a function takes the dimension of the samples for that of channels, or a place."""
    wanted = BATCH_FIRST_OF.get(name)
    known = data.form in (Layout.TENSOR, Layout.STATE, Layout.YIELDED) and not data.opaque
    return wanted is not None and known and (data.dim > 0 or 0 < data.ndim < wanted)


def _is_among_last(
    run: RunState, name: str, operand: cst.BaseExpression, data: Data, rest: Sequence[Value]
) -> bool:
    """Whether the rows lie along one of the last dimensions, on which a function works."""
    last = LAST_OF.get(name, 0)
    if name in LAST_TOLD and rest:
        if any(d.form is NumberKind.SHAPE and d.dim == 0 for d in rest[0].data):
            return True  # F.layer_norm(x, x.shape): over all samples
        told = dimensions.without_zeros(rest[0]) if name == "pad" else dimensions.length(rest[0])
        last = -(-told // LAST_TOLD[name])
    plain = data.form in (Layout.TENSOR, Layout.STATE) and not data.opaque
    if plain and not data.ndim and (name in LAST_OF or name in LAST_TOLD):
        least = max(dimensions.asked_for(run, operand), dimensions.sliced(operand))
        if data.dim == 0 and least > last:
            return False
        return dimensions.may_be_of_rows(data, range(-last, 0))
    return plain and data.ndim > 0 and data.dim >= data.ndim - last


def coupled(
    run: RunState, node: cst.BaseExpression, operand: cst.BaseExpression, data: Data
) -> Value:
    """What couples samples: in a loop, its reader is told; elsewhere it gets all of them."""
    if run.collating:
        return collating.mixed(run, node, data, known=False, rows=False)
    if not run.frames_forward():
        return value(data.placed(Placement.COUPLED))
    run.demand(operand, value(data), uses.A_STATISTIC)
    replicated = data.placed(Placement.REPLICATE)
    return value(replace(replicated, form=Layout.GATHERED, dim=data.dim, flat=True))


def split_beside(run: RunState, operands: Iterable[tuple[cst.BaseExpression, Data | None]]) -> bool:
    """Whether a rank's rows meet rows of all ranks, of which it takes its own, too.

    That is in a forward, or where numbers alone filled those rows: no gradient goes back to them.
    """
    if run.collating or not run.module.editable:
        return False
    for (_, own), (shown, gathered) in permutations(operands, 2):
        if own is None or gathered is None or gathered.form is not Layout.GATHERED or gathered.flat:
            continue  # a slice has fewer rows
        if own.form in (Layout.STACKED, Layout.INTERLEAVED):
            continue  # which are not one behind the other in the rows of all ranks
        if not run.frames_forward() and not made_rows.can_be_split(run, gathered, own):
            continue
        if own.placement is Placement.SHARD and own.dim == gathered.dim == 0:
            give_back(run, shown, own)
            return True
    return False


def give_back(run: RunState, shown: cst.BaseExpression, own: Data) -> None:
    """Let a rank take its own of the rows of all ranks, as many as it has of ``own``."""
    run.facts.loading.given_back[shown] = own.loaders
    run.facts.loading.given_back_through.setdefault(shown, set()).add(run.call_path)


def is_fixed(index: Value) -> bool:
    """Whether an index is the same on all ranks, or counts all samples, and is no order of them."""
    ordered_ = any(isinstance(a, Data) and a.form in _OF_SAMPLES for a in index.atoms)
    own = any(data.placement is not Placement.COUNT for data in index.data)
    return not (ordered_ or own or index.positions or index.constant() is None)


def taken_by_position(
    run: RunState, node: cst.Subscript, atom: Data, index: Value | None
) -> Data | None:
    """What a fixed position or slice takes of the samples in a forward; None for another index.

    All ranks take it of the rows of all.
    """
    rows = atom.form in (Layout.TENSOR, Layout.STACKED) or atom.ragged
    if (
        not rows
        or atom.opaque
        or not run.frames_forward()
        or not (run.module.editable or run.collating)
    ):
        return None
    above = run.module.parents.get(node)
    written = isinstance(above, cst.AugAssign) and above.target is node  # which is judged there
    if written or (index is not None and not is_fixed(index)):
        return None
    replicated = atom.placed(Placement.REPLICATE)
    if run.collating:
        run.mixes(node, atom)
        one = index is not None and (isinstance(index.constant(), int) or bool(index.data))
        return replicated if one else replace(replicated, form=Layout.GATHERED, flat=True)
    run.demand(node.value, value(atom), uses.A_STATISTIC)
    bounds.count_sizes(run, [*bounds.of_slices(node), *_counted_index(node, index)])
    return replicated if index is not None else replace(replicated, form=Layout.GATHERED, flat=True)


def _counted_index(node: cst.Subscript, index: Value | None) -> list[cst.BaseExpression]:
    """The position that is asked for, where it goes by the number of samples."""
    first = node.slice[0].slice
    return [first.value] if index is not None and isinstance(first, cst.Index) else []


def coupled_operands(
    run: RunState,
    node: cst.BaseExpression,
    operands: Sequence[tuple[cst.BaseExpression, Value]],
    *,
    rows: bool | None = None,
) -> Value:
    """What a function makes of several operands' rows, each sample beside all others.

    ``rows`` is whether the result has a row for each sample; None where that is not known.
    """
    found = [(shown, data) for shown, held in operands for data in held.data]
    if run.collating:
        known = rows is not None
        return collating.mixed(run, node, found[0][1], known=known, rows=bool(rows))
    for shown, data in found:
        run.demand(shown, value(*([data] if data.counting else [])), uses.POSITIONS)
    found = [(shown, data) for shown, data in found if not data.counting] or found
    names = frozenset(name for shown, data in found for name in (data.names or {shown}))
    if not run.frames_forward():
        return value(replace(found[0][1].placed(Placement.COUPLED), names=names))
    for shown, data in found:
        run.demand(shown, value(data), uses.A_STATISTIC)
    if rows is False:
        return REPLICATED
    return value(replace(found[0][1].placed(Placement.REPLICATE), form=Layout.GATHERED))
