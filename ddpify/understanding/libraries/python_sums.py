"""``sum(x)``: of a tensor's rows, or of what a list holds, which keeps its placement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import record, replace
from ddpify.understanding import uses
from ddpify.understanding.answers import first_answer
from ddpify.understanding.arguments import argument_at
from ddpify.understanding.arithmetic import orders, tensor_pairs
from ddpify.understanding.batching import per_sample_lists, ragged_samples, sample_totals
from ddpify.understanding.forms import Layout, NumberKind
from ddpify.understanding.placement import Placement
from ddpify.understanding.syntax import displayed
from ddpify.understanding.values import (
    REPLICATED,
    UNKNOWN,
    Atom,
    Data,
    Instance,
    Value,
    deep_atoms,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def total(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """What ``sum()`` gives of its arguments."""
    if not args:
        return REPLICATED
    shown = argument_at(node, 0)
    if len(args) == 2 and run.collating:
        joined = ragged_samples.joined(run, node, run.iterate(shown, args[0]))
        if joined is not None:
            return joined
    of_samples = sample_totals.total(run, node, shown, args[0])
    if of_samples is not None:
        return of_samples
    start = args[1] if len(args) == 2 else UNKNOWN
    added = (_Added(run, node, atom, start) for atom in map(orders.as_number, args[0].atoms))
    return join(*map(_of_one, added)) or REPLICATED


@record
class _Added:
    """What is added up: a tensor, or a list."""

    run: RunState
    node: cst.BaseExpression
    atom: Atom
    start: Value


def _of_one(added: _Added) -> Value:
    known = first_answer(_RULES, added)
    return _of_values(added) if known is None else known


def _numbers(added: _Added) -> Value | None:
    numbers = per_sample_lists.numbers(value(added.atom))
    if not numbers:
        return None
    added.run.demand(added.node, numbers, "sum()")
    return UNKNOWN


def _lists(added: _Added) -> Value | None:
    """``sum(lists, [])``: one list with all items of the others."""
    run, atom = added.run, added.atom
    listed = any(one.type == "list" for one in added.start.of(Instance))
    if not listed or not isinstance(atom, Instance):
        return None
    per_sample_lists.take_all(run, value(atom))  # of which each may bring several
    inner = [one.elements for one in atom.elements.of(Instance) if one.type == "list"]
    made = run.instance(added.node, run.module, "list")
    run.put(made, "*", join(*inner, value(*atom.elements.data)))
    return value(made)


def _mixed_items(added: _Added) -> Value | None:
    mixed = per_sample_lists.mixed_items(added.run, added.atom)
    return None if mixed is None else value(mixed)


def _tensor(added: _Added) -> Value | None:
    """The sum of a tensor's rows, of several tensors, or of what lies before the rows."""
    atom = added.atom
    if not isinstance(atom, Data):
        return None
    if atom.form is NumberKind.SHAPE:
        added.run.demand(argument_at(added.node, 0), value(atom), "sum()")
        return UNKNOWN
    if atom.form is Layout.PIECES or atom.dim > 0:
        return value(_added_tensors(atom))
    rows = atom.placement is Placement.SHARD
    summed = atom.placed(Placement.SUM if rows else atom.placement)
    return value(replace(summed, one_each=atom.ndim < 2))


def _items_for_rows(added: _Added) -> Value | None:
    """A list with an item for each row."""
    atom = added.atom
    items = per_sample_lists.of_list(atom) if isinstance(atom, Instance) else None
    items = items or per_sample_lists.one_each(added.run, atom)
    if items is None:
        return None
    return value(replace(items.placed(Placement.SUM), one_each=True))


_RULES = (_numbers, _lists, _mixed_items, _tensor, _items_for_rows)
"""The first that says something of what is added up is right; any other holds values."""


def _of_values(added: _Added) -> Value:
    """The sum of what a list holds, or of what is written out."""
    run, atom, shown = added.run, added.atom, argument_at(added.node, 0)
    inside = list(deep_atoms(atom.elements if isinstance(atom, Instance) else value(atom)))
    held = [a for a in inside if isinstance(a, Data)]
    if isinstance(atom, Instance) and atom.each and _are_items_of_lists(held):
        return value(*(replace(a.placed(Placement.SUM), dim=0, one_each=True) for a in held))
    if any(map(_is_of_all, held)) and len({a.placement for a in held}) > 1:
        _sum_whole(run, shown, held)
    per_sample_lists.count_beside_whole(run, shown, value(*inside))
    return value(*map(_as_sum, held))


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
