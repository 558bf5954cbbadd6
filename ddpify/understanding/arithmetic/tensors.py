"""Arithmetic on placements: what tensor operations make of rows, means, sums and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import size_uses, uses
from ddpify.understanding.arithmetic import (
    across_samples,
    along_batch,
    booleans,
    sequences,
    several_operands,
    single_samples,
    tensor_items,
    tensor_pairs,
    views,
)
from ddpify.understanding.arithmetic.denominators import number_of_rows
from ddpify.understanding.arithmetic.tensor_dimensions import (
    KEEPING_DIMENSIONS,
    ORDERING,
    OVER_A_DIMENSION,
    OVER_ALL,
    PARTING,
    SIZE_FIRST,
    along,
    coupled,
    gives_a_pair,
    goes_over_all,
    goes_over_rows,
    is_of_all_samples,
    keeps_dimensions,
    kept_form,
    may_mix_rows,
    mixes_rows,
)
from ddpify.understanding.arithmetic.tensor_pairs import Operand
from ddpify.understanding.batching import batch_rows, collating, handmade_batches, item_dimensions
from ddpify.understanding.forms import Layout, NumberKind
from ddpify.understanding.operators.dimensions import ALONG
from ddpify.understanding.operators.results import how_many
from ddpify.understanding.operators.rules import Rule
from ddpify.understanding.operators.table import rule_of
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import dimensions, tensor_sizes, transpositions
from ddpify.understanding.shapes.dimensions import named_dimensions
from ddpify.understanding.values import (
    NO_ROWS,
    REPLICATED,
    UNKNOWN,
    Atom,
    Const,
    Data,
    Method,
    Number,
    Params,
    Tup,
    Value,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

LINEAR = frozenset(
    "to cpu cuda float double type type_as detach detach_ clone squeeze unsqueeze"
    " squeeze_ unsqueeze_ neg_ negative_ view reshape"
    " contiguous mean sum neg negative numpy requires_grad_ flatten ravel expand expand_as data"
    " retain_grad astype copy asarray array as_tensor from_numpy tensor item_".split()
)
# What gives a global value of all rows, without being a sum of what each rank gives.
_SAME_ELEMENTS = frozenset("long int detach clone contiguous numpy Variable squeeze".split())
# What brings rows together in a tensor that all ranks hold.
WRITING_BY_INDEX = frozenset(
    "index_add index_add_ index_copy index_copy_ index_fill index_fill_ index_put index_put_"
    " index_reduce index_reduce_ masked_scatter masked_scatter_ put put_ scatter scatter_"
    " scatter_add scatter_add_ scatter_reduce scatter_reduce_".split()
)
CHOOSING = frozenset({"topk", "kthvalue"})
REORDERING = frozenset("flip roll flipud fliplr".split())
# What gives one number of all elements, where no dimension is named.
_TO_ONE = frozenset("mean sum prod norm max min std var".split())
_NUMBERS = (NumberKind.NUMBER, NumberKind.MULTIPLE, NumberKind.ROUNDED)
_COMPARING = frozenset(
    "eq ne gt lt ge le equal not_equal greater less greater_equal less_equal".split()
)
_POSITIONS_OF_SOME = ("nonzero", "argwhere", "flatnonzero")
_DOTS = frozenset("dot vdot".split())
_UNDER_EACH_OTHER = frozenset({"repeat", "tile"})
_REPEATING = frozenset("expand expand_as repeat tile repeat_interleave".split())
_PICKED = (Placement.ROWS, Placement.COUPLED)
# Functions of two tensors that broadcast them against each other.
BROADCASTING = frozenset(
    "cosine_similarity pairwise_distance where maximum minimum max min fmax fmin logaddexp".split()
)


def fresh(whole: Value) -> Value:
    """The value under a linear operation: the same placement, as a new tensor.

    What has a denominator of its own is still reduced where the code for that is valid.
    """
    atoms = [
        replace(a, definition_sites=frozenset())
        if isinstance(a, Data) and a.placement.partial and a.form not in _NUMBERS and not a.counted
        else a
        for a in whole.atoms
    ]
    return join(value(*atoms)) if atoms else UNKNOWN


def picked(placement: Placement) -> Placement:
    """The placement of rows taken by position."""
    return Placement.ROWS if placement is Placement.SHARD else placement


def part(atom: Data, position: int) -> Value:
    """One element of an unpacked tensor, batch or shape."""
    if atom.form is Layout.PACKED:
        return value(sequences.elements(atom) if position == 0 else atom)
    if atom.form is NumberKind.SHAPE:
        return value(tensor_sizes.first_size(atom)) if position == atom.dim else REPLICATED
    if atom.form is Layout.SAMPLE:
        return value(collating.part_of_sample(atom, position))
    if atom.form is Layout.PIECES:
        return value(replace(atom, form=Layout.TENSOR))
    if atom.form is Layout.BATCH:
        ndim = item_dimensions.of_part(atom, position)
        return value(replace(atom, form=Layout.TENSOR, ndim=ndim))
    if atom.form is Layout.GATHERED and atom.dim == 0 and not atom.opaque:
        return value(atom.placed(Placement.REPLICATE))
    behind = atom.dim > 0 and not atom.opaque  # what is unpacked is the dimension before the rows
    return value(replace(atom, dim=atom.dim - behind, ndim=0))


def attribute(atom: Data, name: str, *, called: bool) -> Value:
    """An attribute of a tensor, or of an unseen structure of tensors."""
    if name == "shape" and not atom.placement.local:
        gathered = atom.form is Layout.GATHERED
        return value(tensor_sizes.shape(atom)) if gathered else REPLICATED
    if name == "shape":
        return tensor_sizes.global_size(atom) or value(tensor_sizes.shape(atom))
    if name == "ndim" and atom.ndim:
        return value(Const(atom.ndim))
    if name in _ALIKE:
        return REPLICATED
    if atom.form is Layout.PACKED and name == "data":
        return value(sequences.elements(atom))
    if name in transpositions.ATTRIBUTES:
        place = transpositions.place(name, atom.dim, atom.ndim, (), {})
        ndim = atom.ndim or 2 * (name in ("T", "H"))
        return value(replace(atom, dim=atom.dim if place is None else place, ndim=ndim))
    if name in ("data", "real"):
        return value(replace(atom, definition_sites=tensor_pairs.definition_sites(atom)))
    if called:
        return value(Method(value(atom), name))
    if name == "size":  # a NumPy array's number of elements
        return tensor_sizes.elements(atom)
    return value(replace(atom, definition_sites=tensor_pairs.definition_sites(atom), ndim=0))


# What a tensor says of itself that is the same for a part of its rows.
_ALIKE = frozenset(
    "device dtype ndim requires_grad layout grad_fn is_cuda is_cpu is_xpu is_mps is_meta is_leaf"
    " is_sparse is_quantized is_mkldnn is_nested itemsize names output_nr retains_grad".split()
)
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
    made = _each_of_several(name, _function(run, node, name, operands, kwargs, rest), kwargs)
    is_mask = booleans.of_function(name, (held for _, held in operands), rest, kwargs)
    return booleans.marked(made, is_mask)


def _each_of_several(name: str, made: Value, kwargs: Mapping[str, Value]) -> Value:
    """What an operator gives that gives several tensors: each of them holds what is known of it."""
    chosen = {option for option, given in kwargs.items() if given.constant() is True}
    count = how_many(name, chosen)
    held = [atom for atom in made.atoms if isinstance(atom, Data)]
    if count == 1 or len(held) != len(made.atoms) or not held:
        return made
    return value(Tup((made,) * count))


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
    if name in ("to", "type_as"):  # of another tensor they take its kind alone
        operands = operands[:1]
    handmade_batches.meet(run, operands)
    if name.endswith("_") and not name.endswith("__"):
        _keep_own_rows(run, operands[1:])
    if name in tensor_pairs.BINARY and len(operands) > 1:
        return tensor_pairs.binary(run, node, tensor_pairs.BINARY[name], operands[0], operands[1])
    if name in _COMPARING:
        return tensor_pairs.compare(run, [n for n, _ in operands], [v for _, v in operands])
    if name in CHOOSING:
        _take_whole_numbers(run, name, operands[1:])
        operands = operands[:1]
    data = [(n, d) for n, v in operands for d in v.data]
    of_others = single_samples.meet_others(run, node, data)
    if of_others is not None:
        return of_others
    alone = [(n, d) for n, d in data if d.dim == NO_ROWS]
    data = alone or data  # what meets a single sample is that sample's
    if not data:
        return on_replicated(name, operands, rest, kwargs)
    if name in WRITING_BY_INDEX and (
        not operands[0][1].data or several_operands.place(node, operands, operands[0][0])
    ):
        return _written_by_index(run, node, operands)
    if tensor_pairs.beside_replicated(run, tensor_pairs.held_tensors(operands)):
        return value(replace(data[0][1].placed(Placement.REPLICATE), form=Layout.GATHERED))
    if "out" in kwargs:
        return _written_out(run, operands, kwargs["out"])
    tensor_pairs.note_used_on_rows(run, [d for _, d in tensor_pairs.held_tensors(operands)])
    ordered = _in_given_order(run, node, name, operands[0], rest, kwargs)
    if ordered is not None:
        return ordered
    if name == "index_select" and len({id(operand) for operand, _ in data}) == 1:
        data = [(n, d) for n, d in data if d not in _indices(rest, kwargs)]
        if not data:
            whole = tensor_items.all_found(run, [n for n, _ in operands])
            return REPLICATED if whole else _selected_by(rest, kwargs)
    along = along_batch.of_all_ranks(run, node, name, operands, rest, kwargs)
    if along is not None:
        return along
    of_all = several_operands.of_all_ranks(run, node, name, operands, rest, kwargs)
    if of_all is not None:
        return of_all
    if broadcasts(name) and _meet_crosswise(run, [held.data for _, held in operands]):
        return tensor_pairs.mixed(run, node, data[0][1], operands)
    results = []
    for operand, one in data:
        made = _one(run, node, name, operand, one, rest, kwargs)
        if one.placement is not Placement.ROWS:  # which are global where they are picked, or never
            made = _named_by(operand, name, made)
        if one.placement is Placement.SHARD:
            made = _counted_by(node, operand, made)
        one_line = name in ("flatten", "ravel") and not rest and not kwargs
        left = 1 if one_line else _dimensions_left(name, one.ndim, rest, kwargs)
        results.append(tensor_pairs.with_ndim(made, left))
    followed = [r for r in results if any(isinstance(a, (Data, Tup)) for a in r.atoms)]
    if not followed:
        return REPLICATED
    coupled_ = [r for r in followed if any(d.placement in _PICKED for d in r.data)]
    if coupled_ and len(data) > 1:
        return join(*coupled_)  # each element of the result is made of all operands
    if name in LINEAR and len(data) == len(operands[0][1].data):
        held = operands[0][1].atoms
        followed.append(value(*(a for a in held if isinstance(a, Data) and a.reduced)))
    return join(*followed)


def _is_of_two(operands: list[Operand], rest: Sequence[Value]) -> bool:
    """Whether ``max(x, y)`` takes the larger of two tensors: ``y`` is no dimension."""
    if len(operands) < 2 or not rest:
        return False
    computed = isinstance(operands[1][0], cst.Call) and isinstance(
        operands[1][0].func, cst.Attribute
    )
    return any(
        (isinstance(atom, (Data, Params)) and not _is_a_count(atom))
        or (isinstance(atom, Number) and computed)
        for atom in rest[0].atoms
    )


def _is_a_count(atom: Atom) -> bool:
    return isinstance(atom, Data) and atom.placement is Placement.COUNT


def broadcasts(name: str) -> bool:
    """Whether a function of several tensors broadcasts them against each other."""
    return name in BROADCASTING or rule_of(name) is Rule.ELEMENTWISE


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


def _dimensions_left(
    name: str, ndim: int, rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> int:
    """How many dimensions a function leaves of a tensor; 0 where that is not known."""
    if name not in OVER_A_DIMENSION or name in PARTING:
        return dimensions.after(name, ndim, rest)
    if name in KEEPING_DIMENSIONS:
        return ndim if rest or kwargs else 0  # NumPy's go through all elements, if not told
    given = named_dimensions(rest[1:] if name in SIZE_FIRST else rest, kwargs)
    if not ndim or len(given) != 1 or ... in given[0]:
        return 0
    return ndim if keeps_dimensions(kwargs) else max(ndim - len(given[0]), 0) * bool(given[0])


def _indices(rest: Sequence[Value], kwargs: Mapping[str, Value]) -> list[Data]:
    """The rows that ``index_select(x, dim, index)`` selects by."""
    index = kwargs.get("index") or (rest[1] if len(rest) > 1 else UNKNOWN)
    return [d for d in index.data if d.placement is Placement.SHARD]


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
    return value(tensor_items.regrouped(run, node, rows[0], held[0])) if held else None


def _selected_by(rest: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    """What rows select of what all ranks hold: one for each of them."""
    along = (kwargs.get("dim") or (rest[0] if rest else UNKNOWN)).constant()
    dim = along if isinstance(along, int) and along > 0 else 0
    found = _indices(rest, kwargs)
    return value(
        *(replace(d, dim=dim, definition_sites=frozenset(), form=kept_form(d)) for d in found)
    )


def _take_whole_numbers(run: RunState, name: str, numbers: list[Operand]) -> None:
    """How many are asked for depends on the whole batch where they are chosen from all of it."""
    for node, held in numbers:
        counts = [d for d in held.data if d.placement is Placement.COUNT]
        if counts:
            run.demand(node, value(*counts), f"{name}()")


def _in_forward(
    run: RunState,
    node: cst.BaseExpression,
    name: str,
    operand: cst.BaseExpression,
    data: Data,
    rest: Sequence[Value],
    kwargs: Mapping[str, Value],
) -> Value | None:
    """A function along the samples of a forward's batch, or over all of it; None for others."""
    if is_of_all_samples(name, data, rest, kwargs):
        return across_samples.of_all_rows(run, operand, data)
    over_all = goes_over_all(name, rest, kwargs)
    over_all = over_all and not size_uses.is_only_a_size(run.module.structure, node)
    if run.module.editable or run.collating:
        mixed = across_samples.along_samples(run, node, name, operand, data, rest, kwargs)
        if mixed is None and over_all:
            mixed = across_samples.of_all_rows(run, operand, data)
        if mixed is not None:
            return mixed
    if over_all or mixes_rows(name, data, rest, kwargs):
        run.facts.forwards.statistics.setdefault(node, run.site(node))
    return None


def _keep_own_rows(run: RunState, others: list[Operand]) -> None:
    """What is changed in place keeps its placement: rows at one position are those of all ranks."""
    for shown, held in others:
        picked = (data for data in held.data if data.placement in _PICKED)
        run.demand(shown, value(*picked), uses.A_CHANGE)


def _meet_crosswise(run: RunState, operands: list[list[Data]]) -> bool:
    """Whether the rows of two operands surely lie along different dimensions."""
    met = (list(product(*both)) for both in combinations(operands, 2))
    return any(pairs and all(tensor_pairs.crossed(run, *pair) for pair in pairs) for pairs in met)


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


def on_replicated(
    name: str, operands: list[Operand], rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value:
    """The same for replicated values: rows stay rows, unless the function adds them up."""
    reduced = [a for _, v in operands for a in v.atoms if isinstance(a, Data)]
    if not reduced or (name == "detach" and reduced[0].form is not Layout.GATHERED):
        return REPLICATED
    number = replace(
        reduced[0].placed(Placement.REPLICATE),
        definition_sites=reduced[0].definition_sites,
        one_each=reduced[0].one_each and reduced[0].reduced,
    )
    coupled_ = across_samples.of_replicated(name, reduced[0])
    if coupled_ is not None and name not in ALONG:
        return _each_of_several(name, value(coupled_), kwargs)
    picked = along_batch.of_replicated(name, operands, rest, kwargs)
    if picked is not None:
        return picked
    if reduced[0].form is Layout.GATHERED and gives_a_pair(name, rest, kwargs):
        return _pair_of_replicated(name, reduced[0], rest, kwargs)
    over_rows = name in OVER_A_DIMENSION and goes_over_rows(name, reduced[0], rest, kwargs)
    if name == "argsort" and over_rows and reduced[0].ndim < 2:
        return value(replace(reduced[0].placed(Placement.REPLICATE), form=Layout.PERMUTATION))
    along_one = bool(rest) or bool({"dim", "axis"} & kwargs.keys())
    left = reduced[0].opaque and along_one  # perhaps rows along another dimension
    gone = over_rows and name not in KEEPING_DIMENSIONS and not left
    return value(number if gone else reduced[0])


def _pair_of_replicated(
    name: str, rows: Data, rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value:
    """Values and indices of the rows of all ranks, or along them."""
    if not mixes_rows(name, rows, rest, kwargs):
        return value(Tup((value(rows), value(rows))))
    if name == "sort":
        return across_samples.ordered(rows, name)
    if name in KEEPING_DIMENSIONS and name not in CHOOSING:
        return value(Tup((value(rows), value(rows))))
    number = value(
        replace(rows.placed(Placement.REPLICATE), definition_sites=rows.definition_sites)
    )
    return value(Tup((number, number)))


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


def _one(
    run: RunState,
    node: cst.BaseExpression,
    name: str,
    operand: cst.BaseExpression,
    data: Data,
    rest: Sequence[Value],
    kwargs: Mapping[str, Value],
) -> Value:
    if data.placement.partial:
        made = _on_partial(run, name, operand, data)
        return _single(made) if name in _TO_ONE and not rest and not kwargs else made
    if not data.ndim and isinstance(operand, cst.Name):
        data = replace(data, ndim=dimensions.unpacked(run, operand))
    if data.opaque and _names_a_dimension(rest, kwargs):
        data = replace(data, opaque=False)  # a tensor of several dimensions, and no loss or list
    if data.placement is Placement.ROWS:
        scalar = name in _DOTS or (name in _TO_ONE and not rest and not kwargs)
        mixed = replace(data.placed(Placement.COUPLED), definition_sites=data.definition_sites)
        return value(mixed if scalar else data)
    if data.dim == NO_ROWS and name == "unsqueeze" and rest and rest[0].constant() == 0:
        return value(collating.one_row(data))
    if _picks_rows(run, name, data, rest, kwargs):
        if name in _POSITIONS_OF_SOME:
            return value(found(run, operand, data))
        return value(replace(data, dim=0, definition_sites=frozenset(), form=Layout.MASKED))
    dim = _dimension_after(name, data, rest, kwargs)
    if dim is not None:
        behind_one = name == "unsqueeze" and data.dim == 0 < dim and data.form is Layout.TENSOR
        form = Layout.STATE if behind_one else data.form
        one_each = name == "squeeze" and dimensions.may_leave_one_each(data, 1)
        return value(
            replace(data, dim=dim, definition_sites=data.counting, form=form, one_each=one_each)
        )
    if name in transpositions.TRANSPOSING and not data.opaque and data.dim != NO_ROWS:
        return across_samples.coupled(run, node, operand, data)
    if name == "squeeze" and not run.collating:
        run.facts.sizes.squeezes.setdefault(node, (run.site(node), data.dim))
        data = replace(data, one_each=dimensions.may_leave_one_each(data, 1))
    if name == "squeeze" and data.form in (Layout.STATE, Layout.STATES):
        return value(
            replace(data, dim=0, definition_sites=frozenset(), form=Layout.TENSOR)
        )  # of one layer
    if name in views.RESHAPING and run.collating and data.dim == NO_ROWS:
        alone = bool(rest) and rest[0].constant() == 1
        return value(collating.one_row(data) if alone else replace(data, ndim=0))
    if name in views.RESHAPING:
        return views.reshaped(run, name, data, rest, operand)
    if name == "argsort" and data.form is Layout.PERMUTATION:
        return value(replace(data, definition_sites=frozenset()))  # the way back
    if name == "renorm" and data.dim != NO_ROWS:
        each = len(rest) > 1 and rest[1].constant() == data.dim
        rows = replace(data, definition_sites=frozenset())
        return value(rows if each else across_samples.on_all_rows(run, node, operand, data))
    if name in OVER_A_DIMENSION and data.dim == NO_ROWS:
        row = keeps_dimensions(kwargs) and named_dimensions(rest, kwargs) == [(0,)]
        left = replace(data, definition_sites=frozenset(), ndim=0)  # still of this sample alone
        form = Layout.TENSOR if run.collating else Layout.ROW
        return value(collating.one_row(left, form=form) if row else left)
    if data.counting and name in OVER_A_DIMENSION and not run.frames_forward():
        run.demand(operand, value(data), uses.POSITIONS)  # they become those of all ranks
        return value(data.placed(Placement.REPLICATE))
    if name in OVER_A_DIMENSION:
        if may_mix_rows(name, data, rest, kwargs):
            run.facts.sizes.unsure_dimensions.setdefault(node, run.site(node))
        inside = run.frames_forward()
        in_forward = _in_forward(run, node, name, operand, data, rest, kwargs) if inside else None
        if in_forward is not None:
            return in_forward
        unsure = name in across_samples.KEPT and may_mix_rows(name, data, rest, kwargs)
        if unsure and run.module.editable and not run.collating and data.form is Layout.TENSOR:
            return value(across_samples.on_all_rows(run, node, operand, data))
        made = along(run, name, data, rest, kwargs)
        by_default = name in ORDERING and not data.ndim and () in named_dimensions(rest, kwargs)
        return _ordered(made, operand) if by_default else made
    if name == "grad":  # torch.autograd.grad: one gradient for each input
        return value(replace(data, definition_sites=frozenset(), form=Layout.PIECES))
    if name in REORDERING and data.counting:
        return value(replace(data, form=NumberKind.COMPUTED))
    if name in REORDERING and _moves_rows(name, data, rest, kwargs):
        return value(tensor_items.regrouped(run, node, operand, data))
    if data.form is Layout.PERMUTATION and name not in (*LINEAR, *_SAME_ELEMENTS):
        return value(replace(data.placed(Placement.REPLICATE), form=Layout.GATHERED))
    if name == "batch_norm" and _by_batch(rest, kwargs):
        if run.frames_forward() and (run.module.editable or run.collating):
            return value(across_samples.on_all_rows(run, node, operand, data))
        return value(replace(data.placed(coupled(run)), definition_sites=frozenset()))
    if name in _DOTS:
        return value(replace(data.placed(Placement.SUM), one_each=True))
    by_rule = across_samples.by_rule(run, node, name, operand, data, rest)
    if by_rule is not None:
        return by_rule
    if name in _UNDER_EACH_OTHER and data.form is Layout.TENSOR and not data.dim:
        return value(_repeated(data, rest))
    repeated = name in _REPEATING and data.form is Layout.STATE  # which is several of them by now
    form = Layout.TENSOR if repeated else kept_form(data)
    if data.form is Layout.ORDER and name in _SAME_ELEMENTS:
        form = data.form
    return value(replace(data, definition_sites=data.counting, form=form))


def _repeated(data: Data, times: Sequence[Value]) -> Data:
    """``x.repeat(2, 1)``: the rows under each other, or behind a new dimension."""
    counts = views.sizes_of(times)
    new = len(counts) - data.ndim if data.ndim else 0
    if new > 0:
        return replace(data.placed(Placement.SHARD), dim=new, form=Layout.TENSOR)
    once = bool(counts) and counts[0].constant() == 1
    form = Layout.TENSOR if once else Layout.STACKED
    return replace(data.placed(Placement.SHARD), form=form)


def found(run: RunState, mask: cst.BaseExpression, data: Data) -> Data:
    """The positions at which a mask holds: a rank's own, until the mask is that of all rows."""
    inside = run.frames_forward() and (run.collating or not run.module.editable)
    located = data.dim == 0 and not data.opaque and not inside
    found_in = frozenset({mask}) if located else data.found_in
    return replace(data, dim=0, definition_sites=frozenset(), form=Layout.MASKED, found_in=found_in)


def _by_batch(rest: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """Whether ``F.batch_norm`` may normalise with the statistics of the batch."""
    given = kwargs.get("training") or (rest[4] if len(rest) > 4 else value(Const(False)))
    return given.constant() is not False


def _ordered(made: Value, operand: cst.BaseExpression) -> Value:
    """What sorting gives where each sample may have one number: a use as an index will tell.

    Then the order is one of all samples, and the operand is what could be gathered.
    """
    atoms = (
        Tup(tuple(_ordered(item, operand) for item in a.items))
        if isinstance(a, Tup)
        else replace(a, definition_sites=frozenset({operand}))
        if isinstance(a, Data) and a.form is Layout.ORDER
        else a
        for a in made.atoms
    )
    return value(*atoms)


def _names_a_dimension(rest: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """Whether a function works along a dimension behind the first."""
    dim = (kwargs.get("dim") or (rest[0] if rest else UNKNOWN)).constant()
    return isinstance(dim, int) and not isinstance(dim, bool) and dim > 0


def _picks_rows(
    run: RunState, name: str, data: Data, rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> bool:
    """Whether a function leaves as many rows as a mask, or positions of a rank's rows, say.

    A forward treats each sample alone: one position for each puts its rows in another order.
    """
    if name in ("masked_select", *_POSITIONS_OF_SOME):
        return True
    along = (kwargs.get("dim") or (rest[0] if rest else UNKNOWN)).constant()
    positions = _indices(rest, kwargs)
    each = any(d.form in (NumberKind.RANGE, Layout.ORDER) for d in positions)
    each |= run.frames_forward() and not any(d.ragged for d in positions)
    return name == "index_select" and along == data.dim and bool(positions) and not each


def _dimension_after(
    name: str, data: Data, rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> int | None:
    """The dimension of the rows after a function that moves, adds or drops one; None for others."""
    if name in transpositions.TRANSPOSING:
        return transpositions.place(name, data.dim, data.ndim, rest, kwargs)
    if name == "unsqueeze" and rest:
        place = rest[0].constant()
        return data.dim + (isinstance(place, int) and 0 <= place <= data.dim)
    if name == "squeeze" and (rest or "dim" in kwargs):
        place = (rest[0] if rest else kwargs["dim"]).constant()
        return data.dim - (isinstance(place, int) and 0 <= place < data.dim)
    return None


def _moves_rows(name: str, data: Data, rest: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """Whether ``flip`` or ``roll`` moves rows of the batch among themselves."""
    if name in ("flipud", "fliplr"):
        return data.dim == (name == "fliplr")
    given = [kwargs["dims"]] if "dims" in kwargs else rest[name == "roll" :]
    dims = [dim for one in given for dims in named_dimensions((one,), {}) for dim in dims]
    places = [dimensions.place(dim, data.ndim) for dim in dims]
    unsure = any(isinstance(place, int) and place < -1 for place in places)
    return not dims or data.dim in places or unsure


def _single(made: Value) -> Value:
    """Known to be one number."""
    return value(*(replace(a, one_each=True) if isinstance(a, Data) else a for a in made.atoms))


def _on_partial(run: RunState, name: str, operand: cst.BaseExpression, data: Data) -> Value:
    if data.placement is Placement.COUNT:
        run.demand(operand, value(data), f"{name}()")
        return REPLICATED
    if name in LINEAR:
        return fresh(value(data))
    run.demand(operand, value(data), f"{name}(), which does not commute with a sum")
    return value(data.placed(Placement.REPLICATE))
