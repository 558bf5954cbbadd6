"""Operators on two tensors: what they make of rows, means, sums and counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations, product
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import record, replace
from ddpify.understanding import uses
from ddpify.understanding.arguments import local_data
from ddpify.understanding.arithmetic import (
    across_samples,
    booleans,
    lifted_rows,
    orders,
    single_samples,
    unsure_sizes,
)
from ddpify.understanding.arithmetic.pair_placements import (
    LINEAR_IN,
    both_plain,
    in_another_order,
    met,
    placement_of,
    result_of,
    surely_crossed,
)
from ddpify.understanding.batching import (
    batch_rows,
    handmade_batches,
    item_dimensions,
    joint_loaders,
    row_numbers,
)
from ddpify.understanding.forms import Layout, NumberKind
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import (
    bounds,
    columns,
    dimensions,
    relative_ranks,
    tensor_sizes,
    widths,
)
from ddpify.understanding.syntax import displayed
from ddpify.understanding.values import (
    REPLICATED,
    Atom,
    Const,
    Data,
    Instance,
    Number,
    Tup,
    Value,
    deep_atoms,
    join,
    value,
    without_views,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_NUMBERS_OF_ROWS = (Placement.COUNT, Placement.PER_COUNT)

MOST_LENGTHS = 3  # of tuples that are added to: of more, it is a loop that makes them longer
Operand = tuple[cst.BaseExpression, Value]  # what is written, and its value

BINARY = {
    "add": "+", "add_": "+", "sub": "-", "sub_": "-", "subtract": "-", "mul": "*", "mul_": "*",
    "multiply": "*", "div": "/", "div_": "/", "divide": "/", "true_divide": "/", "matmul": "@",
    "mm": "@", "mv": "@", "pow": "**",
}  # fmt: skip


def binary(run: RunState, node: cst.CSTNode, operator: str, left: Operand, right: Operand) -> Value:
    """``left operator right``; an operand that cannot stay partial is demanded."""
    left, right = orders.as_numbers(run, left, right)
    matrix = operator == "@" and _is_turned_matrix(right[0])
    handmade_batches.meet(run, [left] if matrix else [left, right])
    repeated = _repeated(run, left, right) if operator == "*" else None
    repeated = repeated or (_longer(run, left, right) if operator in "+*" else None)
    if repeated is not None:
        return repeated
    if not left[1].data and not right[1].data:
        whole = _of_no_parts(run, operator, left, right)
        whole = whole if operator == "@" else lifted_rows.noted(run, whole, [left, right])
        return row_numbers.shifted(whole)
    _place_among_all(run, left, right)
    _count_beside_whole(run, left, right)
    if operator == "@":
        of_all = lifted_rows.asked(run, "matmul", [*left[1].data, *right[1].data])
        if of_all is not None:
            return of_all
    known = all(len({d.dim for d in side.data}) <= 1 for _, side in (left, right))
    results: list[Value] = []
    for one in _parts(left[1]):
        for other in _parts(right[1]):
            if not _is_local(one) and not _is_local(other):
                results.append(_of_reduced(operator, one, other))
                continue
            pair = _pair(run, node, operator, (left[0], one), (right[0], other), known=known)
            plain = [side for side, d in ((left, one), (right, other)) if d is None]
            ndim = _dimensions(run, operator, one, other, plain)
            pair = _beside_more_dimensions(pair, one or other, ndim) if plain else pair
            pair = with_ndim(pair, ndim)
            if operator == "@":
                width = widths.of_expression(right[0], run.module)
                pair = columns.marked(pair, columns.of_product(one, other, width))
            results.append(_counted_from(pair, operator, one, other, plain))
    is_mask = booleans.of_operator(operator, (left[1], right[1]))
    made = booleans.marked(without_views(join(*results)), is_mask)
    changed = isinstance(node, cst.AugAssign) and bool(left[1].data)  # which keeps its dimensions
    made = made if changed or operator == "@" else lifted_rows.noted(run, made, [left, right])
    return row_numbers.shifted(made)


def _counted_from(
    made: Value, operator: str, left: Data | None, right: Data | None, plain: Sequence[Operand]
) -> Value:
    """A result of unknown dimensions, with what these are counted from."""
    numbers = all(dimensions.of_value(one) == 0 for _, one in plain)
    relative = relative_ranks.of_pair(left, right) if numbers and operator != "@" else None
    held = (
        replace(atom, relative=relative)
        if isinstance(atom, Data) and not atom.ndim and atom.relative != relative
        else atom
        for atom in made.atoms
    )
    return value(*held)


def _of_no_parts(run: RunState, operator: str, left: Operand, right: Operand) -> Value:
    """What an operator gives where ranks hold neither operand in part."""
    if of_all_ranks([left, right]):
        return _plain(operator, left[1], right[1])
    held = [*map(handmade_batches.replicated_tensors, (left[1], right[1]))]
    if operator == "@" and any(held):
        return batch_rows.product(run, [left, right])
    return batch_rows.joined([left, right]) or _plain(operator, left[1], right[1])


def _dimensions(
    run: RunState,
    operator: str,
    left: Data | None,
    right: Data | None,
    plain: Sequence[Operand],
) -> int:
    """How many dimensions an operation leaves; ``plain`` are the operands that are no data."""
    shown = [item_dimensions.of_expression(node, run.module) for node, _ in plain]
    held = [ndim or dimensions.of_value(one) for ndim, (_, one) in zip(shown, plain, strict=True)]
    if operator == "@":
        return dimensions.of_product(left, right, [ndim or 0 for ndim in held])
    return dimensions.of_pair(left, right, held)


def _place_among_all(run: RunState, *operands: Operand) -> None:
    """Ask for positions among the rows of all ranks where a number of them enters a row."""
    for (shown, numbers), (_, rows) in permutations(operands):
        counted = any(one.counting for one in numbers.data)
        if run.collating and counted:
            run.mixes(shown, *(one for one in rows.data if not one.counting))
        if rows.data:
            run.demand(shown, value(*numbers.positions), uses.POSITIONS)


def _count_beside_whole(run: RunState, *operands: Operand) -> None:
    """Ask for the number of all rows where it meets a mean or a sum, and may be another number."""
    for (shown, numbers), (_, others) in permutations(operands):
        scaled = any(one.placement in LINEAR_IN for one in others.data)
        counts = (one for one in numbers.data if one.placement is Placement.COUNT)
        if scaled and any(map(_is_another_number, numbers.atoms)):
            run.demand(shown, value(*counts), uses.ONE_PLACEMENT)


def _is_another_number(atom: Atom) -> bool:
    """Whether this is a number that all ranks hold."""
    if isinstance(atom, Data):
        return atom.placement is Placement.REPLICATE
    return isinstance(atom, (Const, Number)) and atom != Const(None)


def _is_turned_matrix(factor: cst.BaseExpression) -> bool:
    """Whether this is written as a matrix, ``m.t()`` or ``m.T``: behind ``@`` it has no rows."""
    turned = factor.func if isinstance(factor, cst.Call) and not factor.args else factor
    return isinstance(turned, cst.Attribute) and turned.attr.value in ("t", "T")


def _repeated(run: RunState, left: Operand, right: Operand) -> Value | None:
    """``[first] * len(batch)``: an element for each of this rank's rows; else None.

    A part of their number, as ``len(batch) // 2``, is not the sum of the ranks' parts, and of all
    ranks' rows it says which come first: there are as many elements as for the rows of all ranks.
    """
    for (shown, listed), (number, times) in permutations((left, right)):
        lists = [a for a in listed.atoms if _is_a_list(a)]
        plain = bool(lists) and len(lists) == len(listed.atoms)
        counts = [d for d in times.data if d.placement is Placement.COUNT] if plain else []
        if counts:
            _reduce_items(run, shown, listed)
        if (counts and _of_a_part(run, number)) or (plain and _is_total(times)):
            return value(Data(Placement.REPLICATE, form=Layout.GATHERED, flat=True, listed=True))
        if counts:
            run.facts.sizes.shape_uses.update(
                definition_site for data in counts for definition_site in data.definition_sites
            )
            return value(replace(tensor_sizes.rows_as_many(counts[0]), listed=True))
    return None


def _of_a_part(run: RunState, number: cst.BaseExpression) -> bool:
    """Whether a number is a part of that of the rows; it is that of all ranks' rows then."""
    return not run.collating and bounds.count_rounded(run, [number])


def _is_total(number: Value) -> bool:
    return any(a.form is NumberKind.TOTAL for a in number.of(Data))


def _is_a_list(atom: Atom) -> bool:
    return isinstance(atom, Tup) or (isinstance(atom, Instance) and atom.type == "list")


def _reduce_items(run: RunState, shown: cst.BaseExpression, listed: Value) -> None:
    """Ask for what stands in a list that is repeated for each row: it is the same for all."""
    count_held(run, shown, list(local_data(listed)))
    for item in displayed(shown) or [shown]:
        held = [a for a in deep_atoms(run.seen(item)) if isinstance(a, Data)]
        parts = [d for d in held if d.placement.local and d.placement not in _NUMBERS_OF_ROWS]
        whole = [d for d in parts if not d.placement.partial]
        run.demand(item, value(*(d for d in parts if d.placement.partial)), uses.ARITHMETIC)
        run.demand(item, value(*whole), uses.A_STATISTIC)


def _longer(run: RunState, left: Operand, right: Operand) -> Value | None:
    """``x.tolist() + [1]``, a list with other items than a rank's rows; None for other operands.

    It is made of the rows of all ranks.
    """
    if run.collating:
        return None
    lists = [[a for a in held.of(Instance) if a.type == "list"] for _, held in (left, right)]
    for (shown, _), held in zip((left, right), lists, strict=True) if all(lists) else ():
        of_each = [a for a in held if a.each]
        if of_each:  # else what is written out there is no item for each row
            run.demand_held(shown, value(*of_each), uses.POSITIONS)
    rows = [(shown, d) for shown, held in (left, right) for d in held.data if _is_in_a_list(d)]
    if not rows:
        return None
    for shown, data in rows:
        run.demand(shown, value(data), uses.A_STATISTIC)
    whole = rows[0][1].placed(Placement.REPLICATE)
    return value(replace(whole, form=Layout.GATHERED, flat=True, opaque=True, listed=True))


def _is_in_a_list(data: Data) -> bool:
    return data.listed and data.placement is Placement.SHARD


def count_held(run: RunState, shown: cst.BaseExpression, held: Sequence[Data]) -> None:
    """Ask for numbers in a list, such as ``1 / len(x)``, that go by the number of all rows."""
    numbers = (d for d in held if d.placement in _NUMBERS_OF_ROWS and not d.is_position)
    run.demand(shown, value(*numbers), uses.A_COUNT if run.frames_forward() else uses.ARITHMETIC)


def broadcast(made: Value, operands: Sequence[Operand]) -> Value:
    """What a function makes of rows and of tensors, perhaps of more dimensions, all ranks hold."""
    rows = [data for _, one in operands for data in one.data]
    plain = [dimensions.of_value(one) or 0 for _, one in operands if not one.data]
    alike = len({(one.dim, one.ndim) for one in rows}) == 1
    return _beside_more_dimensions(made, rows[0], max(plain, default=0)) if alike else made


def _beside_more_dimensions(made: Value, rows: Data | None, ndim: int) -> Value:
    """What rows make with a tensor of more dimensions, which come in front of theirs."""
    if rows is None or not 0 < rows.ndim < ndim:
        return made
    more = ndim - rows.ndim
    return value(
        *(
            replace(one, dim=one.dim + more)
            if isinstance(one, Data) and one.placement.local and one.dim == rows.dim
            else one
            for one in made.atoms
        )
    )


def with_ndim(result: Value, ndim: int) -> Value:
    """Its rows and values that mix them, known to have this many dimensions."""
    return value(*(_with_ndim(atom, ndim) for atom in result.atoms))


def _with_ndim(atom: Atom, ndim: int) -> Atom:
    if isinstance(atom, Tup):
        return Tup(tuple(with_ndim(item, ndim) for item in atom.items))
    if isinstance(atom, Data):
        return replace(atom, ndim=ndim)
    return atom


def _parts(whole: Value) -> list[Data | None]:
    """What ranks hold in part, and what has been reduced over them, if the value may be such."""
    held = [a for a in whole.atoms if isinstance(a, Data)]
    parts: list[Data | None] = [*whole.data]
    if not parts:
        return [held[0] if held else None]
    return [*parts, *(a for a in held if is_loss_of_all(a))]


def is_loss_of_all(data: Data) -> bool:
    """Whether this is a mean or a sum that was reduced, whose gradient a second one would scale."""
    return data.reduced and bool(data.definition_sites)


def _is_local(one: Data | None) -> bool:
    return one is not None and one.placement.local


def _of_reduced(operator: str, left: Data | None, right: Data | None) -> Value:
    """What an operator makes of what was reduced, where it may be a rank's part as well."""
    held = next((one for one in (left, right) if one is not None and is_loss_of_all(one)), None)
    if held is None:
        return _plain(operator, value(left) if left else REPLICATED, REPLICATED)
    return value(replace(held.placed(Placement.REPLICATE), definition_sites=held.definition_sites))


def _plain(operator: str, left: Value, right: Value) -> Value:
    """Arithmetic of replicated values; containers add up to one that holds both."""
    tuples = [[a for a in one.atoms if isinstance(a, Tup)] for one in (left, right)]
    if operator == "+" and all(tuples):
        return _added(tuples[0], tuples[1])
    paired = pairs_of_all([a for a in (*left.atoms, *right.atoms) if isinstance(a, Data)])
    if paired is not None:
        return value(paired)
    kept = [a for a in (*left.atoms, *right.atoms) if isinstance(a, (Instance, Tup, Data))]
    if kept and operator == "@" and not all(_is_known_matrix(a) for a in kept):
        return across_samples.perhaps_rows("matmul", value(*kept))
    if kept:
        return join(value(*kept))
    ndim = None if operator == "@" else dimensions.of_values(left, right)
    return REPLICATED if ndim is None else value(Number(ndim=ndim))


def _is_known_matrix(factor: Atom) -> bool:
    """Whether a factor surely has several dimensions: a product leaves the rows of the left one."""
    return not isinstance(factor, Data) or factor.ndim > 1 or factor.form is not Layout.GATHERED


def pairs_of_all(held: Sequence[Data]) -> Data | None:
    """Rows of all ranks beside rows of all ranks: they lie along two dimensions of the result."""
    rows = [data for data in held if data.form is Layout.GATHERED]
    if len({data.dim for data in rows}) < 2 and not any(data.opaque for data in rows):
        return None
    return replace(rows[0], dim=0, ndim=0, flat=True, opaque=True)


def _added(left: list[Tup], right: list[Tup]) -> Value:
    """The sums of tuples; one that grows in a loop is told apart up to a length only."""
    sums = [a.items + b.items for a in left for b in right]
    lengths = {len(a.items) for a in left}
    if len(lengths) > MOST_LENGTHS:
        last = max(lengths) - 1
        sums = [(*one[:last], join(*one[last:])) if one[last:] else one for one in sums]
    return join(*(value(Tup(items)) for items in sums))


@record
class _Pair:
    """Two operands, one of which ranks hold in part.

    Attributes:
        known: Whether the rows lie along one dimension in each operand.
        placement: How ranks hold what they give; None where no reduction of it would be right.
    """

    run: RunState
    node: cst.CSTNode
    operator: str
    left: tuple[cst.BaseExpression, Data | None]
    right: tuple[cst.BaseExpression, Data | None]
    known: bool
    placement: Placement | None

    @property
    def held(self) -> list[Data]:
        """What follows from batches."""
        return [d for _, d in (self.left, self.right) if d is not None]

    @property
    def base(self) -> Data:
        """The first that ranks hold in part."""
        return next(d for d in self.held if d.placement.local)

    @property
    def loaders(self) -> frozenset[Instance]:
        """Those of both."""
        return frozenset(loader for d in self.held for loader in d.loaders)

    def placements(self) -> tuple[Placement, Placement]:
        """Those of both operands, as this operator takes them."""
        left, right = self.left[1], self.right[1]
        return placement_of(self.operator, left, right), placement_of(self.operator, right, left)


def _pair(
    run: RunState,
    node: cst.CSTNode,
    operator: str,
    left: tuple[cst.BaseExpression, Data | None],
    right: tuple[cst.BaseExpression, Data | None],
    *,
    known: bool,
) -> Value:
    """One possible pair."""
    of_others = single_samples.meet_others(run, node, [(e, d) for e, d in (left, right) if d])
    if of_others is not None:
        return of_others
    if any(lie_elsewhere(run, *both) for both in permutations((left[1], right[1]))):
        return _pairs_of_all(run, left, right)
    _count_replicated(run, left, right)
    _place_found(run, left, right)
    placement = met(run, operator, left[1], right[1])
    pair = _Pair(run, node, operator, left, right, known, placement)
    base = pair.base
    if placement is Placement.SHARD and operator != "@" and left[1] and right[1]:
        joint_loaders.combine(run, left[1], right[1])
    if operator != "@" and across_samples.split_beside(run, [left, right]):
        return value(replace(base.placed(Placement.SHARD), loaders=pair.loaders, dim=base.dim))
    if beside_replicated(run, [left, right]):
        rows = replace(base.placed(Placement.REPLICATE), loaders=pair.loaders)
        pairs = any(d.form is Layout.GATHERED and d.opaque for d in pair.held)
        return value(replace(rows, form=Layout.GATHERED, opaque=pairs))
    note_used_on_rows(run, pair.held)
    own = _own_size(pair)
    if own is not None:
        return value(own)
    return _unreduced(pair) if placement is None else _placed(pair, placement)


def _own_size(pair: _Pair) -> Data | None:
    """``x.numel() // 4`` in ``x.view(x.numel() // 4, 4)``: so many rows a rank has of its own."""
    left, right = pair.left[1], pair.right[1]
    elements = left is not None and left.form is NumberKind.MULTIPLE
    if pair.operator != "//" or left is None or not elements or right is not None:
        return None
    if left.placement is not Placement.SUM or not isinstance(pair.node, cst.BaseExpression):
        return None
    own = unsure_sizes.lays_out_rows(pair.run, pair.node)
    return replace(left, placement=Placement.COUNT) if own else None


def _placed(pair: _Pair, placement: Placement) -> Value:
    """What two operands give together."""
    run, left, right = pair.run, pair.left[1], pair.right[1]
    count = pair.placements()[1] is Placement.COUNT
    if placement is Placement.PER_COUNT and count and right is not None:
        run.facts.sizes.divisors.setdefault(pair.right[0], set()).update(right.loaders)
    made = result_of(pair.operator, pair.base, placement, left, right)
    result = replace(made, names=_names(pair.left, pair.right))
    if placement is Placement.COUPLED and surely_crossed(left, right):
        plain = left is not None and right is not None and both_plain(left, right)
        if plain and not pair.known:
            return value(replace(pair.base.placed(Placement.SHARD), loaders=pair.loaders))
        if plain and pair.operator != "@" and run.frames_forward() and run.module.editable:
            return _pairs_of_all(run, pair.left, pair.right)
        _demand_in_forward(run, pair.node, result)
    if placement is Placement.ROWS:
        sites = definition_sites(left) | definition_sites(right)
        taken_by = frozenset(position for d in pair.held for position in d.taken_by)
        result = replace(result, definition_sites=sites, taken_by=taken_by)
    return value(replace(result, loaders=pair.loaders))


def _unreduced(pair: _Pair) -> Value:
    """What needs the same numbers on every rank first."""
    for expression, data in (pair.left, pair.right):
        if data is not None and data.placement.partial:
            pair.run.demand(expression, value(data), uses.ARITHMETIC)
    of_rows = (Placement.ROWS, Placement.SHARD)
    kept = next((p for p in of_rows if p in pair.placements()), Placement.REPLICATE)
    rows = next((d for d in pair.held if d.placement is kept), pair.base)
    return value(replace(rows.placed(kept), loaders=pair.loaders))


def _pairs_of_all(
    run: RunState,
    *operands: tuple[cst.BaseExpression, Data | None],
) -> Value:
    """Rows beside other rows in a forward: both are those of all ranks."""
    held = [(shown, data) for shown, data in operands if data is not None]
    for shown, data in held:
        run.demand(shown, value(data), uses.A_STATISTIC)
    return value(replace(held[0][1].placed(Placement.REPLICATE), form=Layout.GATHERED))


def _names(*operands: tuple[cst.BaseExpression, Data | None]) -> frozenset[cst.BaseExpression]:
    """Where rows that meet could be gathered: not those that a number only counts."""
    rows = [(e, d) for e, d in operands if d is not None and d.placement is not Placement.COUNT]
    return frozenset(name for e, d in rows for name in (d.names or {e}))


def _count_replicated(
    run: RunState,
    left: tuple[cst.BaseExpression, Data | None],
    right: tuple[cst.BaseExpression, Data | None],
) -> None:
    """Ask for what goes by the number of all rows where it goes into the rows of a rank.

    That is the number itself, as in ``losses / len(x)``, and numbers that go up to it.
    """
    for (shown, numbers), (_, rows) in ((left, right), (right, left)):
        plain = rows is not None and rows.placement is Placement.SHARD and not rows.counting
        if numbers is None or rows is None or not plain:
            continue
        counted = numbers.placement is Placement.COUNT
        if counted:
            inside = run.frames_forward()
            run.demand(shown, value(numbers), uses.A_COUNT if inside else uses.ARITHMETIC)
        else:
            _place_beside(run, shown, numbers, rows)


def place_among_all(run: RunState, operands: Sequence[Operand]) -> None:
    """Ask for positions among the rows of all ranks where a function takes them beside rows."""
    for (shown, numbers), (beside, others) in permutations(operands, 2):
        for one, rows in product(numbers.data, others.data):
            if lie_elsewhere(run, one, rows):
                _pairs_of_all(run, (shown, one), (beside, rows))
            elif rows.placement is Placement.SHARD and not rows.counting:
                _place_beside(run, shown, one, rows)


def _place_beside(run: RunState, shown: cst.BaseExpression, numbers: Data, rows: Data) -> None:
    if numbers.counting and (not run.frames_forward() or _is_plain_batch(run, rows)):
        run.demand(shown, value(numbers), uses.POSITIONS)


def lie_elsewhere(run: RunState, numbers: Data | None, rows: Data | None) -> bool:
    """Whether a forward sets positions beside rows of which a rank has no single stretch.

    A rank's part of the positions would be others than those of its rows.
    """
    if numbers is None or rows is None or not numbers.counting or not run.frames_forward():
        return False
    own = rows.placement is Placement.SHARD and not rows.counting and not rows.opaque
    editable = run.module.editable and not run.collating
    return own and editable and not _is_plain_batch(run, rows)


def _place_found(run: RunState, *operands: tuple[cst.BaseExpression, Data | None]) -> None:
    """Ask for positions in the whole batch where positions that a mask holds meet rows."""
    for (shown, found), (_, rows) in permutations(operands):
        meets = rows is not None and rows.placement is Placement.SHARD and not rows.found_in
        if found is not None and found.found_in and meets:
            run.demand(shown, value(found), uses.POSITIONS)


def _is_plain_batch(run: RunState, rows: Data | None) -> bool:
    """Whether the first dimension of something in a forward surely is that of the samples."""
    plain = rows is not None and rows.form is Layout.TENSOR and rows.dim == 0 and not rows.opaque
    return plain and run.module.editable and not run.collating


def note_used_on_rows(run: RunState, operands: Iterable[Data | None]) -> None:
    """What a reduction gave meets a rank's rows: their gradients differ from rank to rank."""
    held = [d for d in operands if d is not None]
    rows = any(d.placement.local and not d.placement.partial for d in held)
    if rows and not run.no_grad and not run.frames_forward():
        _note_reduced(run, held)


def note_used_unseen(run: RunState, node: cst.CSTNode, given: Iterable[Value]) -> None:
    """What a reduction gave enters code that is not seen: its result may meet a rank's rows."""
    if not run.module.is_unused(node) and not run.no_grad and not run.frames_forward():
        atoms = (atom for one in given for atom in deep_atoms(one))
        _note_reduced(run, [a for a in atoms if isinstance(a, Data) and a.form is Layout.TENSOR])


def _note_reduced(run: RunState, held: Iterable[Data]) -> None:
    # Of what surely has a dimension, it is known at run time.
    numbers = (d for d in held if d.reduced and (d.one_each or not d.ndim))
    run.facts.reductions.used_on_rows.update(site for d in numbers for site in d.definition_sites)


def definition_sites(data: Data | None) -> frozenset[cst.BaseExpression]:
    """Where the batch that rows were picked from could be gathered."""
    picked_ = data is not None and data.placement is Placement.ROWS
    return data.definition_sites if data is not None and picked_ else frozenset()


def beside_replicated(
    run: RunState, operands: Sequence[tuple[cst.BaseExpression, Data | None]]
) -> bool:
    """Whether this rank's rows meet the whole batch's: then they must be gathered as well.

    What it computes of them, such as their number, must be that of the whole batch there. Rows
    that lie in two orders meet only among those of the whole batch, too.
    """
    whole = (Layout.GATHERED, NumberKind.PLACE)  # or positions among them, of which rows pick some
    of_all = any(d is not None and d.form in whole for _, d in operands)
    if not of_all and (run.collating or not lie_in_two_orders(operands)):
        return False
    split = (Placement.SHARD, Placement.COUPLED, Placement.ROWS)
    rows = [(n, d) for n, d in operands if d is not None and d.placement in split]
    rows = [
        (n, d) for n, d in rows if d.form is not Layout.PERMUTATION
    ]  # of all rows, on every rank
    parts = [(n, d) for n, d in operands if d is not None and d.placement.partial]
    for expression, data in (*rows, *parts):
        run.demand(expression, value(data), uses.ALL_ROWS)
    return bool(rows)


def lie_in_two_orders(operands: Iterable[tuple[cst.BaseExpression, Data | None]]) -> bool:
    """Whether a rank's own row of one operand stands beside another than in the whole batch."""
    rows = [d for _, d in operands if d is not None and d.placement is Placement.SHARD]
    pairs = permutations(rows, 2)
    return any(one.dim == other.dim and in_another_order(one, other) for one, other in pairs)


def is_never_zero(run: RunState, number: Data) -> bool:
    """Whether this counts rows or their elements, where no mask has left them."""
    if number.placement is Placement.COUNT:
        return number.form is NumberKind.NUMBER
    counted = (b.func for b in number.definition_sites if isinstance(b, cst.Call))
    rows = [run.seen(c.value).data for c in counted if isinstance(c, cst.Attribute)]
    whole = bool(rows) and not any(data.ragged for held in rows for data in held)
    each = number.placement is Placement.SUM and number.form is NumberKind.MULTIPLE
    return each and whole and len(rows) == len(number.definition_sites)


def mixed(run: RunState, node: cst.CSTNode, one: Data, operands: Sequence[Operand]) -> Value:
    """What couples the rows of its operands, with the places where these could be gathered."""
    data = [(e, d) for e, v in operands for d in v.data]
    names = frozenset(n for e, d in data for n in (d.names or {e}))
    surely = any(surely_crossed(a, b) for _, a in data for _, b in data)
    coupled = replace(one.placed(Placement.COUPLED), names=names)
    if surely:
        _demand_in_forward(run, node, coupled)
    return value(coupled)


def _demand_in_forward(run: RunState, node: cst.CSTNode, coupled: Data) -> None:
    """A loss in a forward needs the rows of all ranks; what else reads it there is not asked."""
    if run.frames_forward():
        run.demand(node, value(coupled), uses.PAIRS)


def displayed_parts(run: RunState, operand: Operand) -> list[Operand]:
    """The elements of a tuple of indices that is written out; else the operand itself."""
    parts = displayed(operand[0])
    return [operand] if parts is None else [(part, run.seen(part)) for part in parts]


def of_all_ranks(operands: Sequence[Operand]) -> bool:
    """Whether an operand holds the rows of all ranks.

    Beside those, a batch made by hand is whole, and what comes out holds rows of all ranks, too.
    """
    return any(d is not None and d.form is Layout.GATHERED for _, d in held_tensors(operands))


def held_tensors(operands: Sequence[Operand]) -> list[tuple[cst.BaseExpression, Data | None]]:
    """Each tensor that an operand may be, beside the operand."""
    return [(node, atom) for node, held in operands for atom in held.of(Data)]
