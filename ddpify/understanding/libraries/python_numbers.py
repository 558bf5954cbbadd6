"""Python's own functions that count and compute: ``abs``, ``range``, and rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arguments import argument_at
from ddpify.understanding.batching import collating
from ddpify.understanding.forms import Layout, NumberKind
from ddpify.understanding.libraries import lengths, python_sums
from ddpify.understanding.libraries.tensor_calls import tensor_function
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import tensor_sizes
from ddpify.understanding.values import NO_ROWS, REPLICATED, Atom, Data, Number, Value, value

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
    "len": lengths.length,
    "sum": python_sums.total,
    "range": _range,
    "abs": _abs,
}
