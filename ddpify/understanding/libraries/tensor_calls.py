"""What functions of tensor libraries make of rows, counts and batches made by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arguments import Keywords, argument_pairs, by_position, local_data
from ddpify.understanding.arithmetic import (
    across_samples,
    booleans,
    einsum,
    in_place,
    one_tensor,
    patterns,
    tensor_items,
    tensor_pairs,
    tensors,
)
from ddpify.understanding.batching import (
    batch_rows,
    batch_sizes,
    collating,
    current_batch,
    handmade_batches,
    per_sample_lists,
    single_rows,
)
from ddpify.understanding.facts import Draw
from ddpify.understanding.forms import Layout, NumberKind
from ddpify.understanding.libraries import concatenations, local_sizes, random_numbers
from ddpify.understanding.operators.places import NUMPYS_CHANGES, NUMPYS_OWN
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
_ROW_BY_ROW = frozenset("gather take_along_dim where lerp".split()) | tensors.BROADCASTING
# What takes an operand's elements at positions that another gives, or as often as it says.
_BY_INDEX = tensors.WRITING_BY_INDEX | {"repeat_interleave"}
_FROM_VALUES = frozenset("tensor as_tensor array asarray".split())
_CONVERTING = frozenset("tensor as_tensor from_numpy array asarray".split())
_OF_A_SIZE = frozenset("zeros ones empty full arange eye identity linspace logspace".split())
_FILLED = frozenset("zeros ones empty".split())
_OF_PAIRS = frozenset("triu_indices tril_indices".split())
_NUMPYS_OF_A_SIZE = _OF_A_SIZE | frozenset("repeat_interleave tile reshape broadcast_to".split())
_BY_PATTERN = frozenset({"einops.rearrange", "einops.reduce", "einops.repeat"})
_TYPED = frozenset("Tensor FloatTensor DoubleTensor LongTensor IntTensor BoolTensor".split())
_WINDOWS = frozenset(
    "bartlett_window blackman_window hamming_window hann_window kaiser_window bartlett blackman"
    " cosine exponential gaussian general_cosine general_hamming hamming hann kaiser"
    " nuttall".split()
)
_COUNTING = _WINDOWS | frozenset(
    "arange eye fftfreq identity linspace logspace range rfftfreq".split()
)
_TORCHS_OF_A_SIZE = (
    _NUMPYS_OF_A_SIZE
    | _COUNTING
    | _TYPED
    | frozenset("rand randn randint randperm normal multinomial".split())
)
_FROM_LISTS = frozenset(
    "tensor as_tensor array asarray Tensor FloatTensor LongTensor IntTensor BoolTensor".split()
)


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
    operands = argument_pairs(node, args, kwargs)
    if short == "narrow" and operands and _is_of_all(operands[0][1]):
        bounds.count_sizes(run, [shown for shown, _ in operands[1:]])
        return value(*operands[0][1].of(Data))
    counted = short == "split" and len(operands) > 1 and tensor_sizes.counts(operands[1][1])
    if counted and not _is_of_all(operands[0][1]):
        return tensor_items.pieces(run, operands[0][1], operands[1][1])
    if short == "split" and len(operands) > 1:
        tensor_items.cut_by_global_batches(run, *operands[:2])
    sized = _of_a_size(run, node, name, short, operands)
    if sized is not None:
        return sized
    if operands and short not in _TORCHS_OF_A_SIZE and _is_shape(operands[0][1]):
        if short == "Size":
            return operands[0][1]
        run.demand(operands[0][0], operands[0][1], f"{short}()")
        return REPLICATED
    if short in ("cat", "concat", "concatenate", "stack", "hstack", "vstack"):
        joined = concatenations.concatenated(run, node, short, args, kwargs)
        if booleans.join_masks(args[0] if args else kwargs.get("tensors", UNKNOWN)):
            joined = booleans.marked(joined, True)
        return joined or handmade_batches.made(run, short) or REPLICATED
    if name == "numpy.shape" and operands and operands[0][1].data:
        return across_samples.coupled_operands(run, node, operands[:1], rows=False)
    if name in ("torch.numel", "numpy.size") and len(operands) == 1:
        return (
            join(*(tensor_sizes.elements(data, node) for data in operands[0][1].data)) or REPLICATED
        )
    if name == "numpy.append" and len(operands) > 1 and not operands[0][1].data:
        run.demand(*operands[1], uses.APPEND)  # a replicated list takes the rows of all ranks
        return REPLICATED
    if name.startswith("numpy.") and short == "at" and not operands[0][1].data:
        for shown, one in operands[1:]:  # np.add.at(table, (labels, guesses), 1)
            run.demand_held(shown, one, uses.A_TABLE)
        return REPLICATED
    if name in NUMPYS_CHANGES and operands and operands[0][1].data:
        return _changed_by_numpy(run, *operands[0])
    made = _of_a_list(run, short, operands)
    if made is not None:
        return made
    if _gives_a_tuple(name, args, kwargs):
        return positions_of_some(run, *operands[0]) or REPLICATED
    involved = [(n, v) for n, v in operands if v.data]
    if involved and short in _ROW_BY_ROW:
        handmade_batches.meet(
            run, [(n, v) for n, v in operands if v.data or handmade_batches.replicated_tensors(v)]
        )
    beside = tensors.broadcasts(short) or short in _BY_INDEX
    if involved and beside:  # rows of all would meet a rank's there
        involved = [(n, v) for n, v in operands if any(isinstance(a, Data) for a in v.atoms)]
    for shown, held in operands:
        inner = list(local_data(held))
        if _are_sums_beside_others(held):
            run.demand_all(shown, held, f"{short}()")
            return REPLICATED
        if inner and not any(isinstance(a, Data) for a in held.atoms):  # else that is what it takes
            involved.append((node, value(*_put_together(run, name, held, inner))))
    by_hand = _on_batches(run, node, name, args, kwargs)
    if by_hand is not None and not involved:
        return by_hand
    if short == "einsum" and involved:
        made = einsum.contracted(run, node, *einsum.given(name, operands))
        if made is not None:
            return made
    if not involved:
        for shown, held in operands:
            run.demand(shown, per_sample_lists.numbers(held), uses.POSITIONS)
        return _on_replicated(run, node, (name, short), operands, args[1:], kwargs)
    written = [a for a in operands[0][1].data if a.placement is Placement.SHARD]
    for data in written if len(written) == len(operands[0][1].atoms) else ():
        changed = in_place.changed(run, node, short, operands, data, args[1:], kwargs)
        if changed is not None:
            return changed
    tensor_pairs.note_used_on_rows(run, [d for _, d in tensor_pairs.held_tensors(operands)])
    return tensors.function(run, node, short, involved, kwargs, args[1:])


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


def _changed_by_numpy(run: RunState, shown: cst.BaseExpression, held: Value) -> Value:
    """Rows of an array are changed in place: a copy of those of all ranks would not do."""
    for data in held.data:
        packed = replace(data, definition_sites=frozenset(), form=Layout.PACKED)
        run.demand(shown, value(packed), uses.A_CHANGE)
    return REPLICATED


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


def _of_a_size(
    run: RunState,
    node: cst.BaseExpression,
    name: str,
    short: str,
    operands: list[tuple[cst.BaseExpression, Value]],
) -> Value | None:
    """What is made as large as a batch, or of numbers of rows; None where no such is given."""
    if short == "full" and operands:
        _filled_with(run, operands[1:])
        operands = operands[:1]
    numbers = [a for _, v in operands for a in deep_atoms(v) if isinstance(a, Data)]
    own = [a for a in _sizes(short, operands) if tensor_sizes.is_own_number(a)]
    if own and name.startswith("torch."):
        return _of_own_numbers(run, short, operands, own)
    sizes = numbers if short in _COUNTING else _sizes(short, operands)
    rows = [a for a in sizes if a.placement is Placement.SHARD and a.form is Layout.TENSOR]
    if rows:
        held = [
            (shown, value(*(a for a in rows if a in set(deep_atoms(v))))) for shown, v in operands
        ]
        return across_samples.coupled_operands(run, node, held, rows=False)
    if any(a.form is NumberKind.TOTAL for a in sizes):
        return value(Data(Placement.REPLICATE, form=Layout.GATHERED))
    counts = [a for a in numbers if a.placement is Placement.COUNT]
    if short in _OF_PAIRS and any(a.form is NumberKind.TOTAL or a in counts for a in numbers):
        bounds.count_sizes(run, [shown for shown, _ in operands])
        return value(Data(Placement.REPLICATE, form=Layout.GATHERED))
    cuts = any(isinstance(a, Data) and a not in counts for _, v in operands[:1] for a in v.atoms)
    listed = short in _FROM_VALUES or (short in _TYPED and len(operands) == 1)
    listed = listed and not operands[0][1].data
    if counts and not cuts and not listed and _makes_rows(name, short):
        return _sized(run, node, short, counts)
    if counts and listed:
        run.demand_all(*operands[0], f"{short}()")  # a list of numbers, one a count
        run.demand_held(*operands[0], f"{short}()")
        return REPLICATED
    made = random_numbers.of_a_batchs_size(run, node) if short in batch_sizes.MAKING else None
    if made is not None:
        return made
    kept = batch_sizes.kept_for(run, node) if short in batch_sizes.MAKING else None
    if kept:
        return value(Data(Placement.REPLICATE, kept, form=Layout.SIZED))
    return None


def _of_own_numbers(
    run: RunState, short: str, operands: list[tuple[cst.BaseExpression, Value]], own: list[Data]
) -> Value:
    """What is made as large as what a mask leaves of a rank's rows; places are among all ranks'."""
    if short not in _COUNTING or run.collating:
        return value(tensor_sizes.rows_as_many(own[0]))
    for shown, held in operands:
        run.demand(shown, value(*(a for a in own if a in held.atoms)), uses.ROWS_OF_ALL)
    return value(Data(Placement.REPLICATE, form=Layout.GATHERED, flat=True, opaque=True))


def _filled_with(run: RunState, numbers: list[tuple[cst.BaseExpression, Value]]) -> None:
    """What ``torch.full(sizes, 1 / len(x))`` holds goes by the number of all rows."""
    for shown, held in numbers:
        counts = [data for data in held.data if data.placement is not Placement.SHARD]
        run.demand(shown, value(*counts), uses.A_COUNT if run.frames_forward() else uses.ARITHMETIC)


def _sizes(short: str, operands: list[tuple[cst.BaseExpression, Value]]) -> list[Data]:
    """The numbers of rows by which a tensor is made, and not those that it is filled with."""
    given = [held for _, held in operands]
    if short in _TYPED:  # LongTensor(n, 3), but not LongTensor([n, 3]) nor LongTensor(x.size())
        alone = given if len(given) > 1 else []
        return [a for held in alone for a in held.atoms if isinstance(a, Data)]
    made = given if short in _OF_A_SIZE else []
    return [a for held in made for a in deep_atoms(held) if isinstance(a, Data)]


def _of_a_list(
    run: RunState, short: str, operands: list[tuple[cst.BaseExpression, Value]]
) -> Value | None:
    """A tensor that is made of a list of samples; None for others."""
    for held, inner in ((v, list(local_data(v))) for _, v in operands if short in _FROM_LISTS):
        if inner and inner[0].dim == NO_ROWS and inner[0] in held.atoms:
            return value(collating.sample(inner[0]))
        if inner and (inner[0].dim == NO_ROWS or inner[0].form is Layout.SAMPLES):
            return value(collating.stacked(inner[0], 0))
    for shown, held in operands[:1] if short in _FROM_LISTS else ():
        for made in held.of(Instance):
            if made.each:
                tensor_pairs.count_held(run, shown, made.elements.data)
            rows = per_sample_lists.of_list(made) or per_sample_lists.as_tensor(made)
            if rows is not None:
                return value(rows)
            alike = per_sample_lists.one_each(run, made)  # [1.0 for _ in x]
            if alike is not None:
                return value(replace(alike, form=Layout.TENSOR))
            if made in run.of_all_ranks:
                return value(Data(Placement.REPLICATE, form=Layout.GATHERED))
    return None


def _on_replicated(  # type: ignore[no-untyped-def]
    run: RunState,
    node: cst.BaseExpression,
    names: tuple[str, str],
    operands: list[tuple[cst.BaseExpression, Value]],
    rest,
    kwargs,
) -> Value:
    """A function of what all ranks hold; ``names`` are its full one and its last part."""
    name, short = names
    reduced = [a for _, v in operands for a in deep_atoms(v) if isinstance(a, Data)]
    if reduced and any(isinstance(a, Data) for a in operands[0][1].atoms):
        return tensors.on_replicated(run, node, short, operands, rest, kwargs)
    if reduced and short in tensors.WRITING_BY_INDEX:  # as large as what is written into
        return value(reduced[0].placed(Placement.REPLICATE))
    if reduced:
        return value(reduced[0])
    return REPLICATED if name.startswith(("torch.", "numpy.", "math.")) else UNKNOWN


def _makes_rows(name: str, short: str) -> bool:
    """Whether a function that is given a number of rows makes as many; others calculate with it."""
    if name.startswith("numpy.random."):
        return True
    if name.startswith("numpy."):
        return short in _NUMPYS_OF_A_SIZE
    return name.startswith("torch.") and short in _TORCHS_OF_A_SIZE


def _on_batches(
    run: RunState, node: cst.BaseExpression, name: str, args: list[Value], kwargs: Keywords
) -> Value | None:
    """What a tensor function makes of batches that the script makes by hand, if it gets any."""
    short, operands = name.rsplit(".", 1)[-1], argument_pairs(node, args, kwargs)
    made = handmade_batches.made(run, short)
    if made is not None and single_rows.number(run, node, name, args, kwargs):
        return REPLICATED
    if made is not None:
        ones = single_rows.rows_of_one(run, node, short)
        made = handmade_batches.without(made, ones, single_rows.dimensions(run, node, short))
        return _as_before(made, operands) if short in _CONVERTING else made
    if not any(handmade_batches.replicated_tensors(held) for _, held in operands):
        return None
    if short == "einsum" and args:
        made = einsum.on_batches(run, *einsum.given(name, operands))
        if made is not None:
            return made
    if short in batch_rows.PRODUCTS:
        return batch_rows.product(run, operands)
    return tensors.on_batches(run, short, operands, [held for _, held in operands[1:]], kwargs)


def _as_before(made: Value, operands: list[tuple[cst.BaseExpression, Value]]) -> Value:
    """A tensor made of an array has its rows where the array may have them."""
    known = {
        atom.dim
        for _, held in operands[:1]
        for atom in held.atoms
        if isinstance(atom, ReplicatedTensor)
    }
    return value(*(a for a in made.atoms if not known or getattr(a, "dim", None) in {None, *known}))


def _sized(run: RunState, node: cst.BaseExpression, short: str, counts: list[Data]) -> Value:
    """A tensor made as long as this rank's rows is one of its shards."""
    if short in ("arange", "range") and not run.collating and not _counts_from_zero(run, node):
        given = [one.value for one in node.args] if isinstance(node, cst.Call) else []
        bounds.count_sizes(run, given)
        return value(Data(Placement.REPLICATE, form=Layout.GATHERED))
    for data in counts:
        run.facts.sizes.shape_uses.update(data.definition_sites)
    shown = list(local_sizes.parts_of(run, node, short)) if isinstance(node, cst.Call) else []
    sizes = [part for part in shown if part.data.placement is Placement.COUNT]
    if len(sizes) > 1 and run.module.editable and not run.collating:  # each sample beside all
        bounds.count_sizes(run, [part.node for part in sizes])
        return value(Data(Placement.REPLICATE, form=Layout.GATHERED))
    made = replace(counts[0].placed(Placement.SHARD), dim=sizes[0].dim if sizes else 0)
    made = replace(made, ndim=_dimensions(run, node) if short in _FILLED else 0)
    if short in ("randperm", "permutation"):
        counted = [part.node for part in sizes]
        if not run.collating:
            current_batch.used(run, node, counts)
            run.facts.random.orders.setdefault(node, Draw(run.site(node), counts=counted))
        if short == "randperm":
            random_numbers.shared_in_forward(run, node)
        made = replace(made, form=Layout.PERMUTATION)
    if short in _COUNTING:
        made = replace(
            made, form=NumberKind.RANGE, definition_sites=frozenset(part.node for part in sizes)
        )
    return value(made)


def _counts_from_zero(run: RunState, node: cst.BaseExpression) -> bool:
    """Whether this is ``arange(n)``: any other has no number for each row."""
    given = [a.value for a in node.args if a.keyword is None] if isinstance(node, cst.Call) else []
    start, *step = [run.seen(given[i]).constant() for i in (0, 2) if i < len(given)] or [0]
    return len(given) == 1 or (len(given) > 1 and start == 0 and step in ([], [1]))


def _dimensions(run: RunState, node: cst.BaseExpression) -> int:
    """How many dimensions ``torch.zeros(2, n)`` or ``torch.zeros(sizes)`` has; 0 if not known."""
    given = [a.value for a in node.args if a.keyword is None] if isinstance(node, cst.Call) else []
    if len(given) != 1:
        return len(given)
    sizes = run.seen(given[0])
    known = {len(a.items) for a in sizes.of(Tup)}
    known |= {len(a.attributes) for a in sizes.of(Instance) if a.kind == "list"}
    return known.pop() if len(known) == 1 else 0
