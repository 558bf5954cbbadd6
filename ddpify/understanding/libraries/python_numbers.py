"""Python's own functions on numbers: ``len``, ``sum``, ``abs``, ``range``, and rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import alternatives, narrowing, uses
from ddpify.understanding.arguments import argument_at
from ddpify.understanding.arithmetic import orders, tensor_pairs
from ddpify.understanding.batching import (
    batch_parts,
    collating,
    per_sample_lists,
    ragged_samples,
    sample_totals,
)
from ddpify.understanding.forms import SEVERAL_TENSORS, Layout, NumberKind
from ddpify.understanding.libraries import own_methods
from ddpify.understanding.libraries.tensor_calls import tensor_function
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import tensor_sizes
from ddpify.understanding.syntax import displayed
from ddpify.understanding.values import (
    NO_ROWS,
    REPLICATED,
    Atom,
    Data,
    Instance,
    Number,
    Value,
    deep_atoms,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def is_of_one_sample(one: Value) -> bool:
    """Whether this is a sample, or a part of it."""
    return bool(one) and all(isinstance(a, Data) and a.dim == NO_ROWS for a in one.atoms)


def is_count(one: Value) -> bool:
    """Whether something is a number of rows, and nothing else."""
    counts = [a for a in one.atoms if isinstance(a, Data) and a.placement is Placement.COUNT]
    return bool(counts) and len(counts) == len(one.atoms)


def rounded(atom: Atom) -> Atom:
    """``int(0.3 * n)``: that of all rows is not the sum of the ranks'."""
    if isinstance(atom, Data) and atom.form is NumberKind.MULTIPLE:
        return replace(atom, form=NumberKind.ROUNDED)
    return atom


def _abs(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``abs(x)``: of each element of a tensor."""
    return tensor_function(run, node, "torch.abs", "abs", args, {})


def _len(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    own = own_methods.called(run, node, args[0], "len") if args else None
    if own is not None and own.data:  # of a batch's rows
        return value(*own.data)
    if run.collating and args:
        samples = collating.length(args[0])
        if samples is not None:
            return tensor_sizes.count(samples, node)
        if any(isinstance(a, Data) and a.dim == NO_ROWS for a in args[0].atoms):
            return args[0]  # of each sample, its own
    results = []
    for one in args:
        if not any(isinstance(a, Instance) and a.each for a in one.atoms):
            run.demand(node, per_sample_lists.numbers(one), "len()")  # range(0, n, 2)
        per_sample_lists.count_some(run, argument_at(node, 0), one)
    for atom in (
        per_sample_lists.rows(value(*alternatives.taken_apart(args[0].atoms))).atoms if args else ()
    ):
        atom = per_sample_lists.one_each(run, atom) or atom
        pieces = isinstance(atom, Data) and atom.form is Layout.PIECES
        if pieces or batch_parts.are_several(atom, run, argument_at(node, 0)):
            results.append(REPLICATED)
            continue
        sizes = isinstance(atom, Data) and atom.form is NumberKind.SHAPE
        if (
            not sizes
            and isinstance(atom, Data)
            and atom.opaque
            and atom.placement is Placement.SHARD
        ):
            run.demand(argument_at(node, 0), value(atom), "len()")  # perhaps of several tensors
            results.append(REPLICATED)
            continue
        rows = (
            isinstance(atom, Data)
            and atom.placement is Placement.SHARD
            and atom.form is not NumberKind.SHAPE
            and atom.dim == 0
            and not (atom.form in SEVERAL_TENSORS and narrowing.is_shown_listed(run, node))
        )
        if isinstance(atom, Data) and not sizes and _is_counted_by_all(atom):
            results.append(tensor_sizes.elements(atom))
            continue
        if isinstance(atom, Data) and not run.collating and per_sample_lists.is_item_of_list(atom):
            results.append(value(replace(atom, form=Layout.TENSOR)))
            continue
        mixed = per_sample_lists.mixed_items(run, atom)
        if mixed is not None:
            results.append(tensor_sizes.elements(mixed))
            continue
        gathered = isinstance(atom, Data) and atom.form is Layout.GATHERED and atom.dim == 0
        results.append(tensor_sizes.count(atom, node) if rows or gathered else REPLICATED)  # type: ignore[arg-type]
    return join(*results) if results else REPLICATED


def _is_counted_by_all(rows: Data) -> bool:
    """Whether only the rows of all ranks tell how many these are: those at places, or pairs."""
    picked = rows.placement is Placement.ROWS and bool(rows.definition_sites)
    return picked or rows.placement is Placement.COUPLED


def _sum(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``sum(tensor)`` adds up its rows; ``sum(values)`` adds values, which keep their placement."""
    results = []
    if len(args) == 2 and run.collating:
        lists = run.iterate(argument_at(node, 0), args[0])
        joined = ragged_samples.joined(run, node, lists)
        if joined is not None:
            return joined
    total = sample_totals.total(run, node, argument_at(node, 0), args[0]) if args else None
    if total is not None:
        return total
    for atom in map(orders.as_number, args[0].atoms) if args else ():
        numbers = per_sample_lists.numbers(value(atom))
        if numbers:
            run.demand(node, numbers, "sum()")
            continue
        if len(args) == 2 and (joined := _joined_lists(run, node, atom, args[1])):
            results.append(joined)
            continue
        mixed = per_sample_lists.mixed_items(run, atom)
        if mixed is not None:
            results.append(value(mixed))
            continue
        if isinstance(atom, Data) and atom.form is NumberKind.SHAPE:
            run.demand(argument_at(node, 0), value(atom), "sum()")
            continue
        if isinstance(atom, Data) and (atom.form is Layout.PIECES or atom.dim > 0):
            results.append(value(_added_tensors(atom)))
            continue
        if isinstance(atom, Data):
            rows = atom.placement is Placement.SHARD
            added = atom.placed(Placement.SUM if rows else atom.placement)
            results.append(value(replace(added, one_each=atom.ndim < 2)))
            continue
        items = per_sample_lists.of_list(atom) if isinstance(atom, Instance) else None
        items = items or per_sample_lists.one_each(run, atom)
        if items is not None:
            results.append(value(replace(items.placed(Placement.SUM), one_each=True)))
            continue
        summed = atom.elements if isinstance(atom, Instance) else value(atom)
        inside = list(deep_atoms(summed))
        held = [a for a in inside if isinstance(a, Data)]
        if isinstance(atom, Instance) and atom.each and _are_items_of_lists(held):
            results += [value(replace(a.placed(Placement.SUM), dim=0, one_each=True)) for a in held]
            continue
        if any(map(_is_of_all, held)) and len({a.placement for a in held}) > 1:
            _sum_whole(run, argument_at(node, 0), held)
        per_sample_lists.count_beside_whole(run, argument_at(node, 0), value(*inside))
        results += [value(_as_sum(a)) for a in held]
    return join(*results) if results else REPLICATED


def _joined_lists(
    run: RunState, node: cst.BaseExpression, atom: Atom, start: Value
) -> Value | None:
    """``sum(lists, [])``, one list with all items of the others; None where none are added up."""
    if not isinstance(atom, Instance) or not any(a.type == "list" for a in start.of(Instance)):
        return None
    per_sample_lists.take_all(run, value(atom))  # of which each may bring several
    inner = [one.elements for one in atom.elements.of(Instance) if one.type == "list"]
    made = run.instance(node, run.module, "list")
    run.put(made, "*", join(*inner, value(*atom.elements.data)))
    return value(made)


def _are_items_of_lists(held: list[Data]) -> bool:
    """Whether these are of lists with an item for each row, such as the lengths of its texts."""
    return bool(held) and all(map(per_sample_lists.is_item_of_list, held))


def _sum_whole(run: RunState, shown: cst.BaseExpression, held: list[Data]) -> None:
    """Ask for all of what is added to something of all ranks: no part stays one beside that."""
    listed = [(one, run.seen(one).data) for one in displayed(shown) or ()]
    for one, parts in listed or [(shown, held)]:
        run.demand(one, value(*(d for d in parts if d.placement.partial)), uses.ARITHMETIC)


def _is_of_all(part: Data) -> bool:
    """Whether this is computed of all ranks' rows, or will be, or meets a rank's own."""
    rows = part.placement in (Placement.COUPLED, Placement.SHARD)
    return rows or tensor_pairs.is_loss_of_all(part)


def _added_tensors(several: Data) -> Data:
    """The sum of several tensors with rows, or of what lies before the dimension of the rows."""
    left = replace(several, form=Layout.TENSOR, definition_sites=frozenset())
    if several.form is Layout.PIECES:
        return left
    return replace(left, dim=several.dim - 1, ndim=max(several.ndim - 1, 0))


def _as_sum(part: Data) -> Data:
    """What several such values add up to: numbers of rows are still numbers of rows.

    Of means with denominators of their own, each is reduced by itself.
    """
    kept = part.placement is Placement.COUNT or part.form is Layout.GATHERED
    form = part.form if kept else Layout.TENSOR
    opaque, one_each = part.opaque, part.one_each
    definition_sites = part.definition_sites if part.placement is Placement.ROWS else frozenset()
    added = replace(part.placed(part.placement), opaque=opaque, form=form, one_each=one_each)
    return part if part.counted else replace(added, definition_sites=definition_sites)


def _range(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """Up to the number of a batch's rows, positions in it."""
    if any(map(_is_of_masked_rows, args)) and isinstance(run.module.parents[node], cst.Index):
        return _places_of_masked_rows(run, node, args)
    counting = [
        _asked_at(data, argument_at(node, i))
        for i, one in enumerate(args)
        for data in one.data
        if data.placement is Placement.COUNT
    ]
    if not counting and not any(map(_is_total, args)):
        first = args[0].constant() if len(args) == 2 else ...
        return value(Number(least=first)) if isinstance(first, int) else REPLICATED
    collating.note_numbers(run, (data for one in args for data in one.data))
    made = run.instance(node, run.module, "generator")
    made.each = len(args) == 1 and all(map(_is_own_number, args[0].atoms))
    if run.collating and not made.each:  # every other sample, or all but the first of a rank's
        run.mixes(node, *counting)
    made.hold("*", position(counting) if counting else value(_OF_ALL_ROWS))
    if not counting:
        run.of_all_ranks.add(made)
    elif not made.each:
        run.of_some_samples.add(made)
    return value(made)


def _is_of_masked_rows(one: Value) -> bool:
    return any(map(tensor_sizes.is_own_number, one.data))


def _places_of_masked_rows(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``x[range(len(left)), y]``: each of the rows that masks leave on all ranks."""
    for i, one in enumerate(args):
        masked = value(*filter(tensor_sizes.is_own_number, one.data))
        run.demand(argument_at(node, i), masked, uses.ROWS_OF_ALL)
    return value(Data(Placement.REPLICATE, form=Layout.GATHERED, flat=True, opaque=True))


def _asked_at(count: Data, bound: cst.BaseExpression) -> Data:
    """A number of rows, had for all ranks at a bound: a part of it is not the sum of theirs."""
    if count.form is NumberKind.ROUNDED:
        return count
    return replace(count, definition_sites=frozenset({bound}))


def _is_own_number(one: Atom) -> bool:
    """Whether this is the number of a rank's rows, and no part of it, as that of all rows is."""
    if not isinstance(one, Data) or one.placement is not Placement.COUNT:
        return False
    return one.form is not NumberKind.ROUNDED


def _is_total(one: Value) -> bool:
    """Whether this is the number of all rows."""
    return any(isinstance(atom, Data) and atom.form is NumberKind.TOTAL for atom in one.atoms)


_OF_ALL_ROWS = Data(Placement.REPLICATE, form=NumberKind.PLACE)


def position(counting: list[Data]) -> Value:
    """A number that counts a rank's rows, where their definition sites allow it."""
    if not counting:
        return REPLICATED
    loaders = frozenset(loader for data in counting for loader in data.loaders)
    definition_sites = frozenset(
        definition_site for data in counting for definition_site in data.definition_sites
    )
    return value(Data(Placement.REPLICATE, loaders, definition_sites, form=NumberKind.POSITION))


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "len": _len,
    "sum": _sum,
    "range": _range,
    "abs": _abs,
}
