"""Operators on two tensors: what they make of rows, means, sums and counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations, product
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arguments import local_data
from ddpify.understanding.arithmetic import across_samples, booleans, single_samples
from ddpify.understanding.batching import (
    batch_rows,
    handmade_batches,
    item_dimensions,
    joint_loaders,
)
from ddpify.understanding.forms import Form, Layout, NumberKind
from ddpify.understanding.placement import Placement, combine
from ddpify.understanding.shapes import dimensions, tensor_sizes
from ddpify.understanding.syntax import displayed
from ddpify.understanding.values import (
    REPLICATED,
    Atom,
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

_PLACED = (Layout.TENSOR, Layout.STATE)  # forms of rows along the dimension that is noted
MOST_LENGTHS = 3  # of tuples that are added to: of more, it is a loop that makes them longer
Operand = tuple[cst.BaseExpression, Value]  # what is written, and its value

BINARY = {
    "add": "+", "add_": "+", "sub": "-", "sub_": "-", "subtract": "-", "mul": "*", "mul_": "*",
    "multiply": "*", "div": "/", "div_": "/", "divide": "/", "true_divide": "/", "matmul": "@",
    "mm": "@", "mv": "@", "pow": "**",
}  # fmt: skip


def binary(run: RunState, node: cst.CSTNode, operator: str, left: Operand, right: Operand) -> Value:
    """``left operator right``; an operand that cannot stay partial is demanded."""
    matrix = operator == "@" and _is_turned_matrix(right[0])
    handmade_batches.meet(run, [left] if matrix else [left, right])
    if not left[1].data and not right[1].data:
        if operator == "@" and (
            handmade_batches.replicated_tensors(left[1])
            or handmade_batches.replicated_tensors(right[1])
        ):
            return batch_rows.product(run, [left, right])
        return batch_rows.joined([left, right]) or _plain(operator, left[1], right[1])
    repeated = _repeated(run, left, right) if operator == "*" else None
    if repeated is not None:
        return repeated
    _place_among_all(run, left, right)
    known = all(len({d.dim for d in side.data}) <= 1 for _, side in (left, right))
    results: list[Value] = []
    for one in _parts(left[1]):
        for other in _parts(right[1]):
            pair = _pair(run, node, operator, (left[0], one), (right[0], other), known=known)
            plain = [side for side, d in ((left, one), (right, other)) if d is None]
            ndim = _dimensions(run, operator, one, other, plain)
            results.append(with_ndim(pair, ndim))
    is_mask = booleans.of_operator(operator, (left[1], right[1]))
    return booleans.marked(without_views(join(*results)), is_mask)


def _dimensions(
    run: RunState,
    operator: str,
    left: Data | None,
    right: Data | None,
    plain: Sequence[Operand],
) -> int:
    """How many dimensions an operation leaves; ``plain`` are the operands that are no data."""
    shown = [item_dimensions.of_expression(node, run.module) for node, _ in plain]
    if operator == "@":
        return dimensions.of_product(left, right, shown)
    held = [
        dimensions.of_value(one) if known is None else known
        for known, (_, one) in zip((ndim or None for ndim in shown), plain, strict=True)
    ]
    return dimensions.of_pair(left, right, held)


def _place_among_all(run: RunState, *operands: Operand) -> None:
    """Ask for positions among the rows of all ranks where a number of them enters a row."""
    for (shown, numbers), (_, rows) in permutations(operands):
        counted = any(one.counting for one in numbers.data)
        if run.collating and counted:
            run.mixes(shown, *(one for one in rows.data if not one.counting))
        if rows.data:
            run.demand(shown, value(*numbers.positions), uses.POSITIONS)


def _is_turned_matrix(factor: cst.BaseExpression) -> bool:
    """Whether this is written as a matrix, ``m.t()`` or ``m.T``: behind ``@`` it has no rows."""
    turned = factor.func if isinstance(factor, cst.Call) and not factor.args else factor
    return isinstance(turned, cst.Attribute) and turned.attr.value in ("t", "T")


def _repeated(run: RunState, left: Operand, right: Operand) -> Value | None:
    """``[first] * len(batch)``: an element for each of this rank's rows; else None."""
    for (shown, listed), (_, times) in permutations((left, right)):
        lists = [a for a in listed.atoms if isinstance(a, Instance) and a.type == "list"]
        plain = bool(lists) and len(lists) == len(listed.atoms)
        counts = [d for d in times.data if d.placement is Placement.COUNT]
        held = list(local_data(listed)) if plain and counts else []
        if plain and counts and all(d.placement in _NUMBERS_OF_ROWS for d in held):
            count_held(run, shown, held)
            run.facts.sizes.shape_uses.update(
                definition_site for data in counts for definition_site in data.definition_sites
            )
            return value(tensor_sizes.rows_as_many(counts[0]))
    return None


def count_held(run: RunState, shown: cst.BaseExpression, held: Sequence[Data]) -> None:
    """Ask for numbers in a list, such as ``1 / len(x)``, that go by the number of all rows."""
    numbers = (d for d in held if d.placement in _NUMBERS_OF_ROWS and not d.is_position)
    run.demand(shown, value(*numbers), uses.A_COUNT if run.frames_forward() else uses.ARITHMETIC)


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
    """What ranks hold in part; else what has been reduced over them, if the value is such."""
    parts: list[Data | None] = [*whole.data]
    return parts or [next((a for a in whole.atoms if isinstance(a, Data)), None)]


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


def _pair(
    run: RunState,
    node: cst.CSTNode,
    operator: str,
    left: tuple[cst.BaseExpression, Data | None],
    right: tuple[cst.BaseExpression, Data | None],
    *,
    known: bool,
) -> Value:
    """One possible pair; ``known`` is whether the rows lie along one dimension in each operand."""
    of_others = single_samples.meet_others(run, node, [(e, d) for e, d in (left, right) if d])
    if of_others is not None:
        return of_others
    _count_replicated(run, left, right)
    _place_found(run, left, right)
    a, b = _placement(operator, left[1], right[1]), _placement(operator, right[1], left[1])
    placement = _met(run, operator, left[1], right[1])
    held = [d for d in (left[1], right[1]) if d is not None]
    base = next(d for d in held if d.placement.local)
    if placement is Placement.SHARD and operator != "@" and left[1] and right[1]:
        joint_loaders.combine(run, left[1], right[1])
    loaders = frozenset(loader for d in held for loader in d.loaders)
    if operator != "@" and across_samples.split_beside(run, [left, right]):
        return value(replace(base.placed(Placement.SHARD), loaders=loaders, dim=base.dim))
    if beside_replicated(run, [left, right]):
        return value(
            replace(base.placed(Placement.REPLICATE), loaders=loaders, form=Layout.GATHERED)
        )
    note_used_on_rows(run, held)
    if placement is Placement.PER_COUNT and b is Placement.COUNT and right[1] is not None:
        run.facts.sizes.divisors.setdefault(right[0], set()).update(right[1].loaders)
    if placement is not None:
        made = _result(operator, base, placement, left[1], right[1])
        result = replace(made, names=_names(left, right))
        if placement is Placement.COUPLED and surely_crossed(left[1], right[1]):
            plain = left[1] is not None and right[1] is not None and both_plain(left[1], right[1])
            if plain and not known:
                return value(replace(base.placed(Placement.SHARD), loaders=loaders))
            if plain and operator != "@" and run.frames_forward() and run.module.editable:
                return _pairs_of_all(run, left, right)
            _demand_in_forward(run, node, result)
        if placement is Placement.ROWS:
            sites = definition_sites(left[1]) | definition_sites(right[1])
            taken_by = frozenset(position for d in held for position in d.taken_by)
            result = replace(result, definition_sites=sites, taken_by=taken_by)
        return value(replace(result, loaders=loaders))
    for expression, data in (left, right):
        if data is not None and data.placement.partial:
            run.demand(expression, value(data), uses.ARITHMETIC)
    kept = next((p for p in (Placement.ROWS, Placement.SHARD) if p in (a, b)), Placement.REPLICATE)
    rows = next((d for d in held if d.placement is kept), base)
    return value(replace(rows.placed(kept), loaders=loaders))


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
    for (shown, numbers), (_, others) in permutations(operands, 2):
        for one, rows in product(numbers.data, others.data):
            if rows.placement is Placement.SHARD and not rows.counting:
                _place_beside(run, shown, one, rows)


def _place_beside(run: RunState, shown: cst.BaseExpression, numbers: Data, rows: Data) -> None:
    if numbers.counting and (not run.frames_forward() or _is_plain_batch(run, rows)):
        run.demand(shown, value(numbers), uses.POSITIONS)


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


def _met(run: RunState, operator: str, left: Data | None, right: Data | None) -> Placement | None:
    """How ranks hold what two operands give; None where no reduction of it would be right."""
    if any(d is not None and d.form is Layout.PERMUTATION for d in (left, right)):
        return Placement.COUPLED
    if _half_reduced(left, right):
        return None
    if _of_one_sample(run, left, right):
        return Placement.ROWS
    if operator == "@":
        placement: Placement | None = _matmul(left, right)
    else:
        one, other = _placement(operator, left, right), _placement(operator, right, left)
        placement = combine(operator, one, other)
    if placement is not None and placement.partial and _of_two_sizes(run, left, right):
        return Placement.SUM if placement is Placement.COUNT else None
    crosswise = placement is Placement.SHARD and crossed(run, left, right)
    return Placement.COUPLED if crosswise else placement


def _of_one_sample(run: RunState, left: Data | None, right: Data | None) -> bool:
    """Whether a sample meets a statistic of its own elements, as in ``x[i] / x[i].max()``."""
    for one, other in permutations((left, right)):
        if one is None or other is None or one.placement is not Placement.ROWS:
            continue
        own = other.placement is Placement.COUPLED and bool(other.definition_sites)
        if own and not any(_is_fixed(run, site) for site in other.definition_sites):
            return True
    return False


def _is_fixed(run: RunState, picked_from: cst.BaseExpression) -> bool:
    """Whether samples were picked at places that no loop counts, as in ``x[[0, 1]]``."""
    above = run.module.parents.get(picked_from)
    taken = isinstance(above, cst.Subscript) and above.value is picked_from
    return taken and picked_from not in run.facts.rows.positions


def _of_two_sizes(run: RunState, left: Data | None, right: Data | None) -> bool:
    """Whether parts of two batches meet that may differ in size: each goes by its own."""
    return bool(left and right and joint_loaders.unequal(run, left.loaders, right.loaders))


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

    What it computes of them, such as their number, must be that of the whole batch there.
    """
    whole = (Layout.GATHERED, NumberKind.PLACE)  # or positions among them, of which rows pick some
    if not any(d is not None and d.form in whole for _, d in operands):
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


def _placement(operator: str, one: Data | None, other: Data | None) -> Placement:
    """An operand's placement; what may be a loss is taken for one where it is added to one."""
    if one is None:
        return Placement.REPLICATE
    added = operator in "+-" and other is not None and other.placement is Placement.MEAN
    return Placement.MEAN if one.opaque and added else one.placement


def crossed(run: RunState, left: Data | None, right: Data | None) -> bool:
    """Whether rows meet other rows: two shards with their batch along different dimensions.

    In a forward the rows' dimension is less certain.
    """
    if left is None or right is None or left.placement is not right.placement:
        return False
    if _are_aligned(left, right) is not None:
        return not _are_aligned(left, right)
    if run.frames_forward() and not surely_crossed(left, right):
        return False
    return left.dim != right.dim and not (left.opaque or right.opaque)


def _are_aligned(left: Data, right: Data) -> bool | None:
    """Whether broadcasting puts the rows of one beside the same rows of the other.

    It aligns the last dimensions. None where the number of dimensions is not known.
    """
    placed = all(d.form in _PLACED and d.ndim and not d.opaque for d in (left, right))
    return left.dim - left.ndim == right.dim - right.ndim if placed else None


def surely_crossed(left: Data | None, right: Data | None) -> bool:
    """Whether rows meet other rows wherever that is: views under each other, or ``x @ y.t()``."""
    if left is None or right is None:
        return False
    if _are_aligned(left, right) is not None:
        return not _are_aligned(left, right)
    if {left.dim, right.dim} != {0, 1}:
        return False
    if both_plain(left, right):
        return True
    alike = left.form == right.form and left.form in (Layout.STACKED, Layout.PAIRS)
    return alike or (right.dim == 1 and right.ndim == 2)


def both_plain(left: Data, right: Data) -> bool:
    """Whether both are rows whose place is known: no states, stacks, or what is not seen."""
    return left.form is right.form is Layout.TENSOR and not (left.opaque or right.opaque)


def _result(
    operator: str, base: Data, placement: Placement, left: Data | None, right: Data | None
) -> Data:
    if placement is Placement.SUM and base.placement is Placement.COUNT:
        return replace(base.placed(placement), form=NumberKind.NUMBER)
    if placement in (Placement.COUNT, Placement.PER_COUNT):
        local = [d for d in (left, right) if d is not None and d.placement.local]
        definition_sites = frozenset(
            definition_site for d in local for definition_site in d.definition_sites
        )
        multiple = NumberKind.ROUNDED if _is_rounded(operator, left, local) else NumberKind.MULTIPLE
        form: Form = multiple if placement is Placement.COUNT else NumberKind.NUMBER
        return replace(base, placement=placement, definition_sites=definition_sites, form=form)
    if placement is Placement.SUM and base.form is NumberKind.MULTIPLE and None in (left, right):
        return base  # summed where it is counted: a share of it could be rounded on each rank
    held = [d for d in (left, right) if d is not None]
    plain = all(d.counting or d.placement is Placement.COUNT for d in held)
    if placement is Placement.SHARD and plain:
        counting = frozenset(definition_site for d in held for definition_site in d.counting)
        return replace(base, definition_sites=counting, form=NumberKind.COMPUTED, ndim=0)
    opaque = any(d.opaque for d in (left, right) if d is not None)
    forms = {Layout.MASKED if d.ragged else d.form for d in (left, right) if d is not None}
    ranked = (Layout.MASKED, Layout.STACKED, Layout.INTERLEAVED)
    form = next((one for one in ranked if one in forms), Layout.TENSOR)
    dims = [d.dim for d in (left, right) if d is not None and d.placement is Placement.SHARD]
    dim = max(dims, default=0)
    both = [d for d in (left, right) if d is not None]
    if operator == "@" and left and right and left.ndim == 1 < right.ndim == right.dim + 1:
        dim -= 1  # a vector leaves none of the dimensions before
    dot = operator == "@" and len(both) == 2 and all(d.ndim == 1 for d in both)
    one_each = dot or any(d.one_each for d in both)
    return replace(base.placed(placement), opaque=opaque, form=form, dim=dim, one_each=one_each)


def _is_rounded(operator: str, left: Data | None, numbers: list[Data]) -> bool:
    """Whether a part of a number of rows is not the sum of the ranks' parts."""
    halved = operator == "//" and left is not None
    return halved or any(number.form is NumberKind.ROUNDED for number in numbers)


def _half_reduced(left: Data | None, right: Data | None) -> bool:
    """Whether a partial loss meets a reduced one: its gradient would be scaled a second time."""
    if left is None or right is None:
        return False
    placements = {left.placement, right.placement}
    return Placement.REPLICATE in placements and any(
        p in (Placement.MEAN, Placement.SUM, Placement.WEIGHTED) for p in placements
    )


_LINEAR_IN = (Placement.MEAN, Placement.SUM, Placement.WEIGHTED)


def _matmul(left: Data | None, right: Data | None) -> Placement | None:
    """What times weights stays what it is, as rows or sums do; rows against rows couple them."""
    held = [d.placement for d in (left, right) if d is not None and d.placement.local]
    if Placement.ROWS in held:
        return None if any(placement.partial for placement in held) else Placement.ROWS
    if Placement.COUPLED in held:
        return Placement.COUPLED
    if left is None or right is None or len(held) < 2:
        alone = _is_summed(left, 0) or _is_summed(right, 1)
        return held[0] if held[0] in _LINEAR_IN else Placement.COUPLED if alone else Placement.SHARD
    if any(placement.partial for placement in held):
        return None
    if _is_summed(left, 0) and _is_summed(right, 1):
        return Placement.SUM
    if left.dim == 0 and right.dim == 0:
        mixed_ = any(map(_may_be_summed, (left, right), (0, 1)))
        return Placement.COUPLED if mixed_ else Placement.SHARD
    # ``x.t() @ y`` adds up over the rows of both.
    matrices = {left.ndim, right.ndim} <= {0, 2}
    summed = left.dim == 1 and right.dim == 0 and matrices
    rows = left.placement is Placement.SHARD and right.placement is Placement.SHARD
    return Placement.SUM if summed and rows else Placement.COUPLED


def _may_be_summed(factor: Data, side: int) -> bool:
    """Whether a product of rows may add up over those of this factor."""
    single = factor.one_each and not factor.ndim and both_plain(factor, factor)
    return single or _is_summed(factor, side)


def _is_summed(factor: Data | None, side: int) -> bool:
    """Whether a product adds up over the rows of its left factor (0) or of its right one (1).

    That is over the last dimension on the left, and over the last but one on the right.
    """
    if factor is None or factor.placement is not Placement.SHARD or not both_plain(factor, factor):
        return False
    last = factor.ndim - 1 if side == 0 or factor.ndim == 1 else factor.ndim - 2
    return factor.ndim > 0 and factor.dim == last


def compare(run: RunState, nodes: Sequence[cst.BaseExpression], values: list[Value]) -> Value:
    """A comparison: elementwise on rows, and a reading of anything partial."""
    if any(d.form is NumberKind.SHAPE for one in values for d in one.data):
        return REPLICATED  # whether shapes are equal does not depend on the number of rows
    shards = []
    with_zero = any(one.constant() == 0 for one in values)
    own = run.frames_forward() and all(map(_counts_rows, values))  # one rank's beside its other
    for node, one in zip(nodes, values, strict=True):
        run.demand(node, value(*one.positions), uses.A_COMPARISON)
        for data in one.data:
            if with_zero and (data.placement is Placement.COUNT or is_never_zero(run, data)):
                run.facts.sizes.shape_uses.update(data.definition_sites)  # no rank is without a row
            elif not data.placement.partial:
                shards.append(data)
            elif not own:
                run.demand(node, value(data), uses.A_COMPARISON)
    handmade_batches.meet(run, list(zip(nodes, values, strict=True)))
    tensors = held_tensors(list(zip(nodes, values, strict=True)))
    if not shards:
        by_hand = batch_rows.joined(zip(nodes, values, strict=True))
        paired = pairs_of_all([d for _, d in tensors if d is not None])
        if paired is not None:
            return value(paired)
        rows_of_all = [d for _, d in tensors if d is not None and d.form is Layout.GATHERED]
        return by_hand or (value(*rows_of_all[:1]) if rows_of_all else REPLICATED)
    if beside_replicated(run, tensors):
        return value(replace(shards[0].placed(Placement.REPLICATE), form=Layout.GATHERED))
    held = [(shown, d) for shown, d in tensors if d is not None and d.placement.local]
    of_others = single_samples.meet_others(run, nodes[0], held)
    if of_others is not None:
        return of_others
    if len(shards) == 2 and crossed(run, *shards):
        return mixed(run, nodes[0], shards[0], list(zip(nodes, values, strict=True)))
    place_among_all(run, list(zip(nodes, values, strict=True)))
    rows = [d for d in shards if d.placement is Placement.ROWS]
    first = (rows or shards)[0]
    kept = first.definition_sites if rows else first.counting
    plain = [dimensions.of_value(one) for one in values if not one.data]
    other = shards[1] if len(shards) > 1 else None
    ndim = dimensions.of_pair(shards[0], other, plain)
    compared: dict[Form, Form] = {
        Layout.ORDER: Layout.TENSOR,
        NumberKind.RANGE: NumberKind.COMPUTED,
    }
    form = compared.get(first.form, first.form)
    return value(replace(first, definition_sites=kept, ndim=ndim, form=form, boolean=True))


def _counts_rows(one: Value) -> bool:
    """Whether a value surely is a number of a rank's rows, whatever they are rows of."""
    numbers = (
        isinstance(a, Data) and a.placement.partial and a.form is NumberKind.NUMBER
        for a in one.atoms
    )
    return bool(one) and all(numbers)


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


def held_tensors(operands: Sequence[Operand]) -> list[tuple[cst.BaseExpression, Data | None]]:
    """Each tensor that an operand may be, beside the operand."""
    return [(node, atom) for node, held in operands for atom in held.of(Data)]
