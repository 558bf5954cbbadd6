"""What functions of tensor libraries make of rows, counts and batches made by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import record, replace
from ddpify.understanding import uses
from ddpify.understanding.answers import first_answer
from ddpify.understanding.arguments import Keywords, argument_pairs, by_position, local_data
from ddpify.understanding.arithmetic import (
    across_samples,
    booleans,
    einsum,
    in_place,
    lifted_rows,
    one_tensor,
    patterns,
    pieces,
    replicated_rows,
    tensor_pairs,
    tensors,
)
from ddpify.understanding.batching import (
    batch_rows,
    collating,
    handmade_batches,
    more_samples,
    per_sample_lists,
    single_rows,
)
from ddpify.understanding.forms import Layout, NumberKind
from ddpify.understanding.libraries import (
    concatenations,
    made_dimensions,
    random_numbers,
    sized_tensors,
)
from ddpify.understanding.libraries.sized_tensors import Operands
from ddpify.understanding.operators.places import NUMPYS_CHANGES, NUMPYS_OWN
from ddpify.understanding.operators.table import BROADCASTING, broadcasts
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import bounds, tensor_sizes
from ddpify.understanding.values import (
    NO_ROWS,
    REPLICATED,
    UNKNOWN,
    Data,
    Instance,
    ReplicatedTensor,
    Tup,
    Value,
    deep_atoms,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


# What takes rows of one tensor by rows of another, as arithmetic does.
_ROW_BY_ROW = (
    frozenset("gather take_along_dim take_along_axis where lerp bmm baddbmm".split()) | BROADCASTING
)
_CONVERTING = frozenset("tensor as_tensor from_numpy array asarray".split())
_BY_PATTERN = frozenset({"einops.rearrange", "einops.reduce", "einops.repeat"})
_JOINING = frozenset("cat concat concatenate stack hstack vstack".split())
_ELEMENTS = frozenset({"torch.numel", "numpy.size"})
_FROM_LISTS = frozenset(
    "tensor as_tensor array asarray Tensor FloatTensor LongTensor IntTensor BoolTensor".split()
)


@record
class _Call:
    """A call of a function of a tensor library.

    Attributes:
        name: Its qualified name.
        short: The name of what it does in PyTorch.
        operands: The arguments and their expressions, but for options.
    """

    run: RunState
    node: cst.BaseExpression
    name: str
    short: str
    args: list[Value]
    kwargs: Keywords
    operands: Operands


def tensor_function(  # type: ignore[no-untyped-def]
    run: RunState, node: cst.BaseExpression, name: str, short: str, args, kwargs
) -> Value:
    """Call a function of a tensor library by its qualified and its short name."""
    short = NUMPYS_OWN.get(name, short)
    drawn = random_numbers.function(run, node, name)
    if drawn is not None:
        return drawn
    by_pattern = patterns.function(run, node, short, args, kwargs) if name in _BY_PATTERN else None
    if by_pattern is not None:
        return by_pattern
    args, kwargs = by_position(short, args, kwargs, tensors=1)
    held = [data for one in (*args, *kwargs.values()) for data in local_data(one)]
    of_all = lifted_rows.asked(run, short, held, args[1:], kwargs)
    if of_all is not None:
        return of_all
    call = _Call(run, node, name, short, args, kwargs, argument_pairs(node, args, kwargs))
    made = first_answer(_RULES, call)
    made = _of_operands(call) if made is None else made
    made = made_dimensions.note(run, node, name, short, made)
    return _no_list(made) if short in _FROM_LISTS | _CONVERTING else made


def _no_list(made: Value) -> Value:
    """A tensor or an array, whatever list it is made of."""
    atoms = (replace(a, listed=False) if isinstance(a, Data) else a for a in made.atoms)
    return value(*atoms) if any(data.listed for data in made.of(Data)) else made


# ---------------------------------------------------------------------- rules of some functions
def _narrowed(call: _Call) -> Value | None:
    """Some of the rows of all ranks."""
    if call.short != "narrow" or not call.operands or not _is_of_all(call.operands[0][1]):
        return None
    bounds.count_sizes(call.run, [shown for shown, _ in call.operands[1:]])
    return value(*call.operands[0][1].of(Data))


def _split(call: _Call) -> Value | None:
    """Pieces of as many rows as a count says; others are only noted."""
    if call.short != "split" or len(call.operands) < 2:
        return None
    (_, rows), (_, sizes) = call.operands[:2]
    if tensor_sizes.counts(sizes) and not _is_of_all(rows):
        return pieces.pieces(call.run, rows, sizes)
    pieces.cut_by_global_batches(call.run, *call.operands[:2])
    return None


def _of_a_size(call: _Call) -> Value | None:
    return sized_tensors.made(call.run, call.node, call.name, call.short, call.operands)


def _of_a_shape(call: _Call) -> Value | None:
    """Arithmetic on the sizes of a rank's rows is done with those of all."""
    if not call.operands or call.short in sized_tensors.TORCHS_OF_A_SIZE:
        return None
    shown, held = call.operands[0]
    if not _is_shape(held):
        return None
    if call.short == "Size":
        return held
    call.run.demand(shown, held, f"{call.short}()")
    return REPLICATED


def _joined(call: _Call) -> Value | None:
    """Tensors that are put together."""
    if call.short not in _JOINING:
        return None
    run, args, kwargs = call.run, call.args, call.kwargs
    joined = concatenations.concatenated(run, call.node, call.short, args, kwargs)
    if booleans.join_masks(args[0] if args else kwargs.get("tensors", UNKNOWN)):
        joined = booleans.marked(joined, True)
    made = joined or handmade_batches.made(run, call.short)
    return made or made_dimensions.of_pieces(call.short, args[0] if args else UNKNOWN)


def _shape(call: _Call) -> Value | None:
    if call.name != "numpy.shape" or not call.operands or not call.operands[0][1].data:
        return None
    return across_samples.coupled_operands(call.run, call.node, call.operands[:1], rows=False)


def _number_of_elements(call: _Call) -> Value | None:
    if call.name not in _ELEMENTS or len(call.operands) != 1:
        return None
    held = call.operands[0][1].data
    return join(*(tensor_sizes.elements(data, call.node) for data in held)) or REPLICATED


def _written_into_replicated(call: _Call) -> Value | None:
    """What NumPy puts into an array that all ranks hold is that of all ranks."""
    if not call.name.startswith("numpy.") or not call.operands or call.operands[0][1].data:
        return None
    if call.name == "numpy.append" and len(call.operands) > 1:
        call.run.demand(*call.operands[1], uses.APPEND)
        return REPLICATED
    at_indices = call.short == "at"  # np.add.at(table, (labels, guesses), 1)
    if not at_indices and call.name not in NUMPYS_CHANGES:
        return None
    for shown, one in call.operands[1:]:
        call.run.demand_held(shown, one, uses.A_TABLE)
    return REPLICATED


def _changed_by_numpy(call: _Call) -> Value | None:
    """Rows of an array are changed in place: a copy of those of all ranks would not do."""
    if call.name not in NUMPYS_CHANGES or not call.operands or not call.operands[0][1].data:
        return None
    shown, held = call.operands[0]
    for data in held.data:
        packed = replace(data, definition_sites=frozenset(), form=Layout.PACKED)
        call.run.demand(shown, value(packed), uses.A_CHANGE)
    return REPLICATED


def _positions_in_a_tuple(call: _Call) -> Value | None:
    if not _gives_a_tuple(call.name, call.args, call.kwargs):
        return None
    return positions_of_some(call.run, *call.operands[0]) or REPLICATED


def _of_a_list(call: _Call) -> Value | None:
    """A tensor that is made of a list of samples; None for others."""
    if call.short not in _FROM_LISTS:
        return None
    for held, inner in ((v, list(local_data(v))) for _, v in call.operands):
        if inner and more_samples.are_in(call.run, held):
            rows = collating.one_row(inner[0])
            return collating.mixed(call.run, call.node, rows, known=False, rows=True)
        if inner and inner[0].dim == NO_ROWS and inner[0] in held.atoms:
            return value(collating.sample(inner[0]))
        if inner and (inner[0].dim == NO_ROWS or inner[0].form is Layout.SAMPLES):
            return value(collating.stacked(inner[0], 0))
    lists = ((n, one) for n, held in call.operands[:1] for one in held.of(Instance))
    known = (of_one for n, one in lists if (of_one := _of_one_list(call.run, n, one)) is not None)
    return next(known, None)


def _of_one_list(run: RunState, shown: cst.BaseExpression, made: Instance) -> Value | None:
    if made.each:
        tensor_pairs.count_held(run, shown, made.elements.data)
    rows = per_sample_lists.of_list(made) or per_sample_lists.as_tensor(made)
    if rows is not None:
        listed = rows.form is Layout.LISTED
        return value(replace(rows, form=Layout.TENSOR, one_each=True) if listed else rows)
    alike = per_sample_lists.one_each(run, made)  # [1.0 for _ in x]
    if alike is not None:
        return value(replace(alike, form=Layout.TENSOR))
    if made in run.of_all_ranks:
        return value(Data(Placement.REPLICATE, form=Layout.GATHERED))
    return None


# ---------------------------------------------------------------------- what its operands are
def _of_operands(call: _Call) -> Value:
    """What a call gives by the placements of what it takes."""
    run, short, operands = call.run, call.short, call.operands
    involved = _involved(call)
    for shown, held in operands:
        inner = list(local_data(held))
        if _are_sums_beside_others(held):
            run.demand_all(shown, held, f"{short}()")
            return REPLICATED
        if inner and not any(isinstance(a, Data) for a in held.atoms):  # else that is what it takes
            involved.append((call.node, value(*_put_together(run, call.name, held, inner))))
    by_hand = _on_batches(run, call.node, call.name, call.args, call.kwargs)
    if not involved:
        return by_hand if by_hand is not None else _of_replicated(call)
    if short == "einsum":
        made = einsum.contracted(run, call.node, *einsum.given(call.name, operands))
        if made is not None:
            return made
    changed = _changed_in_place(call)
    return _of_rows(call, involved) if changed is None else changed


def _are_plain(operands: Operands) -> bool:
    """Whether the operands that are no part of a rank hold nothing of all ranks' rows, either."""
    return not any(isinstance(a, Data) for _, one in operands if not one.data for a in one.atoms)


def _involved(call: _Call) -> Operands:
    """The operands that ranks hold in part, and those with rows of all ranks, which meet them."""
    operands = call.operands
    if not any(v.data for _, v in operands):
        return []
    if call.short in _ROW_BY_ROW:
        by_hand = handmade_batches.replicated_tensors
        handmade_batches.meet(call.run, [(n, v) for n, v in operands if v.data or by_hand(v)])
    if call.short in tensor_pairs.BINARY and _are_plain(operands[:2]):
        return operands[:2]  # of which the other may have more dimensions
    with_rows = [(n, v) for n, v in operands if v.of(Data)]
    if call.short == "index_select" and not operands[0][1].of(Data):
        return [operands[0], *with_rows]  # the table, whose dimensions the rows get
    return with_rows


def _of_replicated(call: _Call) -> Value:
    for shown, held in call.operands:
        call.run.demand(shown, per_sample_lists.numbers(held), uses.POSITIONS)
    names = (call.name, call.short)
    return _on_replicated(call.run, call.node, names, call.operands, call.args[1:], call.kwargs)


def _changed_in_place(call: _Call) -> Value | None:
    """What a function that changes its first operand gives; None for others."""
    run, node, operands = call.run, call.node, call.operands
    written = [a for a in operands[0][1].data if a.placement is Placement.SHARD]
    for data in written if len(written) == len(operands[0][1].atoms) else ():
        changed = in_place.changed(
            run, node, call.short, operands, data, call.args[1:], call.kwargs
        )
        if changed is not None:
            return changed
    return None


def _of_rows(call: _Call, involved: Operands) -> Value:
    run, node = call.run, call.node
    tensor_pairs.note_used_on_rows(run, [d for _, d in tensor_pairs.held_tensors(call.operands)])
    made = tensors.function(run, node, call.short, involved, call.kwargs, call.args[1:])
    beside = broadcasts(call.short) and len(involved) < len(call.operands)
    if not beside:
        return made
    return lifted_rows.noted(run, tensor_pairs.broadcast(made, call.operands), call.operands)


_RULES = (
    _narrowed,
    _split,
    _of_a_size,
    _of_a_shape,
    _joined,
    _shape,
    _number_of_elements,
    _written_into_replicated,
    _changed_by_numpy,
    _of_a_list,
    _positions_in_a_tuple,
)
"""The first that says something of a call is right; where none does, its operands say it."""


def _put_together(run: RunState, name: str, held: Value, inner: list[Data]) -> list[Data]:
    """What a list holds, as NumPy takes it: of one item for each sample, it makes an array."""
    lists = [one for one in held.atoms if isinstance(one, Instance)]
    filled = bool(lists) and all(isinstance(one.site, cst.ListComp) for one in lists)
    single = all(data.dim == NO_ROWS for data in inner)
    if not (run.collating and name.startswith("numpy.") and filled and single):
        return inner
    return [replace(collating.joined(data, "stack", 0), one_each=True) for data in inner]


def _are_sums_beside_others(held: Value) -> bool:
    """Whether a list holds sums over a rank's rows and something else: no sum of lists is right."""
    atoms = [one for one in deep_atoms(held) if not isinstance(one, (Instance, Tup))]
    sums = [one for one in atoms if isinstance(one, Data) and one.placement is Placement.SUM]
    return 0 < len(sums) < len(atoms) and not held.data


def _gives_a_tuple(name: str, args: list[Value], kwargs: Keywords) -> bool:
    """Whether a function gives the positions where a mask holds, one array for each dimension."""
    if name == "torch.nonzero":
        return len(args) == 1 and gives_tuple(kwargs)
    return name in ("numpy.where", "numpy.nonzero", "torch.where") and len(args) == 1 and not kwargs


def gives_tuple(kwargs: Keywords) -> bool:
    """Whether ``nonzero(as_tuple=True)`` is meant."""
    return kwargs.get("as_tuple", UNKNOWN).constant() is True


def positions_of_some(run: RunState, shown: cst.BaseExpression, mask: Value) -> Value | None:
    """Those of a rank's rows, in a tuple, or of what couples rows; None where the mask is none."""
    rows = [d for d in mask.data if d.placement is Placement.SHARD]
    found = value(*(one_tensor.found(run, shown, d.placed(Placement.SHARD)) for d in rows))
    if rows:
        return value(Tup((found,)))
    if mask.data:
        return value(*mask.data)
    whole = [a for a in mask.atoms if isinstance(a, Data) and a.form is Layout.GATHERED]
    return value(*(replace(a, flat=True, opaque=True) for a in whole)) if whole else None


def _is_shape(held: Value) -> bool:
    """Whether these are the sizes of a tensor with a rank's rows."""
    return any(data.form is NumberKind.SHAPE for data in held.data)


def _is_of_all(one: Value) -> bool:
    return (
        any(isinstance(a, Data) and a.form is Layout.GATHERED for a in one.atoms) and not one.data
    )


def _on_replicated(  # type: ignore[no-untyped-def]
    run: RunState,
    node: cst.BaseExpression,
    names: tuple[str, str],
    operands: Operands,
    rest,
    kwargs,
) -> Value:
    """A function of what all ranks hold; ``names`` are its full one and its last part."""
    name, short = names
    reduced = [a for _, v in operands for a in deep_atoms(v) if isinstance(a, Data)]
    if reduced and any(isinstance(a, Data) for a in operands[0][1].atoms):
        return replicated_rows.on_replicated(run, node, short, operands, rest, kwargs)
    if reduced and short in tensors.WRITING_BY_INDEX:  # as large as what is written into
        return value(reduced[0].placed(Placement.REPLICATE))
    if reduced:
        return value(reduced[0])
    if not name.startswith(("torch.", "numpy.", "math.")):
        return UNKNOWN
    kept = "to" if short in _CONVERTING else short
    return replicated_rows.of_numbers(kept, operands, rest, kwargs)


def _on_batches(
    run: RunState, node: cst.BaseExpression, name: str, args: list[Value], kwargs: Keywords
) -> Value | None:
    """What a tensor function makes of batches that the script makes by hand, if it gets any."""
    short, operands = name.rsplit(".", 1)[-1], argument_pairs(node, args, kwargs)
    made = handmade_batches.made(run, short)
    if short in _CONVERTING and operands and _are_known(operands[0][1]):
        return None
    if made is not None and single_rows.number(run, node, name, args, kwargs):
        return REPLICATED
    if made is not None:
        ones = single_rows.rows_of_one(run, node, short)
        made = handmade_batches.without(made, ones, single_rows.dimensions(run, node, short))
        return _as_before(made, operands) if short in _CONVERTING else made
    if not any(handmade_batches.replicated_tensors(held) for _, held in operands):
        return None
    if tensor_pairs.of_all_ranks(operands):
        return None
    if short == "einsum" and args:
        made = einsum.on_batches(run, *einsum.given(name, operands))
        if made is not None:
            return made
    if short in batch_rows.PRODUCTS:
        return batch_rows.product(run, operands)
    return tensors.on_batches(run, short, operands, [held for _, held in operands[1:]], kwargs)


def _are_known(given: Value) -> bool:
    """Whether this surely is what ranks hold of a batch that is split, and no other batch."""
    parts = [item for one in given.of(Tup) for item in one.items]
    known = all(isinstance(atom, (Data, Tup)) for atom in given.atoms)
    return bool(given) and known and all(map(_are_known, parts))


def _as_before(made: Value, operands: Operands) -> Value:
    """A tensor made of an array has its rows where the array may have them."""
    known = {
        atom.dim
        for _, held in operands[:1]
        for atom in held.atoms
        if isinstance(atom, ReplicatedTensor)
    }
    return value(*(a for a in made.atoms if not known or getattr(a, "dim", None) in {None, *known}))
