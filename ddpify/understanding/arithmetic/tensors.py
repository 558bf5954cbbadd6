"""Arithmetic on placements: what tensor operations make of rows, means, sums and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arithmetic import (
    across_samples,
    along_batch,
    booleans,
    dimensions_left,
    parts_of_rows,
    sequences,
    several_operands,
    single_samples,
    tensor_items,
    tensor_pairs,
    views,
)
from ddpify.understanding.arithmetic.denominators import number_of_rows
from ddpify.understanding.arithmetic.one_tensor import LINEAR, indices, of_one
from ddpify.understanding.arithmetic.operation import Operation
from ddpify.understanding.arithmetic.tensor_dimensions import (
    KEEPING_DIMENSIONS,
    ORDERING,
    OVER_A_DIMENSION,
    OVER_ALL,
    PARTING,
    gives_a_pair,
    goes_over_rows,
    kept_form,
    may_mix_rows,
    mixes_rows,
)
from ddpify.understanding.arithmetic.tensor_pairs import Operand
from ddpify.understanding.batching import batch_rows, collating, handmade_batches, item_dimensions
from ddpify.understanding.forms import Layout, NumberKind
from ddpify.understanding.operators.dimensions import ALONG
from ddpify.understanding.operators.in_place import is_in_place
from ddpify.understanding.operators.results import how_many
from ddpify.understanding.operators.rules import Rule
from ddpify.understanding.operators.table import rule_of
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import bounds, dimensions, tensor_sizes, transpositions
from ddpify.understanding.values import (
    NO_ROWS,
    REPLICATED,
    UNKNOWN,
    Atom,
    Const,
    Data,
    Instance,
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

# What brings rows together in a tensor that all ranks hold.
WRITING_BY_INDEX = frozenset(
    "index_add index_add_ index_copy index_copy_ index_fill index_fill_ index_put index_put_"
    " index_reduce index_reduce_ masked_scatter masked_scatter_ put put_ scatter scatter_"
    " scatter_add scatter_add_ scatter_reduce scatter_reduce_".split()
)
CHOOSING = frozenset({"topk", "kthvalue"})
_COMPARING = frozenset(
    "eq ne gt lt ge le equal not_equal greater less greater_equal less_equal".split()
)
_PICKED = (Placement.ROWS, Placement.COUPLED)
# Functions of two tensors that broadcast them against each other.
BROADCASTING = frozenset(
    "cosine_similarity pairwise_distance where maximum minimum max min fmax fmin logaddexp".split()
)


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
        part_ = replace(atom, form=Layout.TENSOR, ndim=ndim)
        return value(replace(part_, one_each=atom.one_each and not ndim))
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
    if is_in_place(name):
        _keep_own_rows(run, operands)
    if name in tensor_pairs.BINARY and len(operands) > 1:
        made = tensor_pairs.binary(run, node, tensor_pairs.BINARY[name], operands[0], operands[1])
        known = dimensions.OF_MATRICES.get(name, 0)
        return dimensions_left.noted(made, known, number=False) if known else made
    if name in _COMPARING:
        return tensor_pairs.compare(run, [n for n, _ in operands], [v for _, v in operands])
    if name in CHOOSING:
        _take_whole_numbers(run, name, operands[1:])
        operands = operands[:1]
    operands = [*operands[:1], *(one for one in operands[1:] if not _is_a_shape(one[1]))]
    data = [(n, d) for n, v in operands for d in v.data]
    of_others = single_samples.meet_others(run, node, data)
    if of_others is not None:
        return of_others
    alone = [(n, d) for n, d in data if d.dim == NO_ROWS]
    data = alone or data  # what meets a single sample is that sample's
    if not data:
        return on_replicated(run, node, name, operands, rest, kwargs)
    if name in WRITING_BY_INDEX and (
        not operands[0][1].data or several_operands.place(node, operands, operands[0][0])
    ):
        return _written_by_index(run, node, operands)
    if tensor_pairs.beside_replicated(run, tensor_pairs.held_tensors(operands)):
        return value(replace(data[0][1].placed(Placement.REPLICATE), form=Layout.GATHERED))
    tensor_pairs.place_among_all(run, operands)
    if "out" in kwargs:
        return _written_out(run, operands, kwargs["out"])
    tensor_pairs.note_used_on_rows(run, [d for _, d in tensor_pairs.held_tensors(operands)])
    ordered = _in_given_order(run, node, name, operands[0], rest, kwargs)
    if ordered is not None:
        return ordered
    if name == "index_select" and len({id(operand) for operand, _ in data}) == 1:
        data = [(n, d) for n, d in data if d not in indices(rest, kwargs)]
        if not data:
            return _selected_by(run, operands, rest, kwargs)
    along = along_batch.of_all_ranks(run, node, name, operands, rest, kwargs)
    if along is not None:
        return along
    of_all = several_operands.of_all_ranks(run, node, name, operands, rest, kwargs)
    if of_all is not None:
        return of_all
    if broadcasts(name) and _meet_crosswise(run, [held.data for _, held in operands]):
        return tensor_pairs.mixed(run, node, data[0][1], operands)
    picked_ = _beside_picked(operands) if broadcasts(name) else None
    if picked_ is not None:
        return tensor_pairs.binary(run, node, "*", *picked_)
    results = []
    for operand, one in data:
        made = of_one(Operation(run, node, name, operand, one, rest, kwargs))
        if one.placement is not Placement.ROWS:  # which are global where they are picked, or never
            made = _named_by(operand, name, made)
        if one.placement is Placement.SHARD:
            made = _counted_by(node, operand, made)
        results.append(dimensions_left.after(made, name, one.ndim, rest, kwargs))
    followed = [r for r in results if any(isinstance(a, (Data, Instance, Tup)) for a in r.atoms)]
    if not followed:
        return REPLICATED
    coupled_ = [r for r in followed if any(d.placement in _PICKED for d in r.data)]
    if coupled_ and len(data) > 1:
        return join(*coupled_)  # each element of the result is made of all operands
    if name in LINEAR and len(data) == len(operands[0][1].data):
        held = operands[0][1].atoms
        followed.append(value(*(a for a in held if isinstance(a, Data) and a.reduced)))
    return join(*followed)


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
        (isinstance(atom, (Data, Params)) and not _is_a_count(atom))
        or (isinstance(atom, Number) and computed)
        for atom in rest[0].atoms
    )


def _is_a_shape(held: Value) -> bool:
    """Whether an argument is the sizes of a tensor, which no operator computes with."""
    return bool(held.data) and all(data.form is NumberKind.SHAPE for data in held.data)


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


def _selected_by(
    run: RunState, operands: list[Operand], rest: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value:
    """What rows select of what all ranks hold: one for each of them."""
    if tensor_items.all_found(run, [n for n, _ in operands]) or _by_places(run, operands):
        return REPLICATED
    along = (kwargs.get("dim") or (rest[0] if rest else UNKNOWN)).constant()
    dim = along if isinstance(along, int) and along > 0 else 0
    found = indices(rest, kwargs)
    return value(
        *(replace(d, dim=dim, definition_sites=frozenset(), form=kept_form(d)) for d in found)
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
    run: RunState,
    node: cst.BaseExpression,
    name: str,
    operands: list[Operand],
    rest: Sequence[Value],
    kwargs: Mapping[str, Value],
) -> Value:
    """The same for replicated values: rows stay rows, unless the function adds them up."""
    made = _on_replicated(run, node, name, operands, rest, kwargs)
    first = [a for a in operands[0][1].atoms if isinstance(a, Data)] if operands else []
    if len(first) != 1 or first[0].form is not Layout.GATHERED:
        return made
    return dimensions_left.after(made, name, first[0].ndim, rest, kwargs)


def _on_replicated(
    run: RunState,
    node: cst.BaseExpression,
    name: str,
    operands: list[Operand],
    rest: Sequence[Value],
    kwargs: Mapping[str, Value],
) -> Value:
    reduced = [a for _, v in operands for a in v.atoms if isinstance(a, Data)]
    if not reduced or (name == "detach" and reduced[0].form is not Layout.GATHERED):
        return REPLICATED
    if name in views.RESHAPING and isinstance(node, cst.Call):  # as many as all ranks have
        bounds.count_sizes(run, [argument.value for argument in node.args])
    if name in PARTING and parts_of_rows.parts(reduced[0], rest, kwargs):
        return parts_of_rows.of_gathered(run, node, reduced[0])
    if name == "unbind" and parts_of_rows.one_by_one(reduced[0], rest, kwargs):
        return parts_of_rows.each(run, node, operands[0][0], reduced[0])
    if name in (*PARTING, "unbind") and reduced[0].form is Layout.GATHERED:
        return value(replace(reduced[0], opaque=True))  # tensors, each with the rows of all ranks
    if name in transpositions.TRANSPOSING and reduced[0].form is Layout.GATHERED:
        place = transpositions.place(name, reduced[0].dim, reduced[0].ndim, rest, kwargs)
        return value(replace(reduced[0], dim=place or 0, opaque=reduced[0].opaque or place is None))
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
    if name in OVER_A_DIMENSION and may_mix_rows(name, reduced[0], rest, kwargs):
        return across_samples.perhaps_rows(name, value(reduced[0]))
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
