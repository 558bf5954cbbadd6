"""``len(x)``: the number of a rank's rows, or of what all ranks hold alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

import libcst as cst

from ddpify.records import record, replace
from ddpify.understanding import alternatives, narrowing
from ddpify.understanding.answers import first_answer
from ddpify.understanding.arguments import argument_at
from ddpify.understanding.batching import batch_parts, collating, per_sample_lists
from ddpify.understanding.forms import SEVERAL_TENSORS, Layout, NumberKind
from ddpify.understanding.libraries import own_methods
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import tensor_sizes
from ddpify.understanding.values import (
    NO_ROWS,
    REPLICATED,
    Atom,
    Data,
    Instance,
    Value,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def length(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """What ``len()`` gives of an argument."""
    if not args:
        return REPLICATED
    own = own_methods.called(run, node, args[0], "len")
    if own is not None and own.data:  # of a batch's rows
        return value(*own.data)
    of_samples = _of_samples(node, args[0]) if run.collating else None
    if of_samples is not None:
        return of_samples
    for one in args:
        if not any(isinstance(a, Instance) and a.each for a in one.atoms):
            run.demand(node, per_sample_lists.numbers(one), "len()")  # range(0, n, 2)
        per_sample_lists.count_some(run, argument_at(node, 0), one)
    rows = per_sample_lists.rows(value(*alternatives.taken_apart(args[0].atoms)))
    return join(*(_of_one(run, node, atom) for atom in rows.atoms)) or REPLICATED


def _of_samples(node: cst.BaseExpression, counted: Value) -> Value | None:
    """The number of the samples that a collate function gets, or of what each of them holds."""
    samples = collating.length(counted)
    if samples is not None:
        return tensor_sizes.count(samples, node)
    of_each = any(isinstance(a, Data) and a.dim == NO_ROWS for a in counted.atoms)
    return counted if of_each else None


@record
class _Counted:
    """What is counted: a tensor, or another object."""

    run: RunState
    node: cst.BaseExpression
    atom: Atom


def _of_one(run: RunState, node: cst.BaseExpression, atom: Atom) -> Value:
    counted = _Counted(run, node, per_sample_lists.one_each(run, atom) or atom)
    return first_answer(_RULES, counted) or REPLICATED


def _several_tensors(counted: _Counted) -> Value | None:
    atom, shown = counted.atom, argument_at(counted.node, 0)
    pieces = isinstance(atom, Data) and atom.form is Layout.PIECES
    several = pieces or batch_parts.are_several(atom, counted.run, shown)
    return REPLICATED if several else None


def _perhaps_several_tensors(counted: _Counted) -> Value | None:
    atom = counted.atom
    if not _is_tensor(atom) or not atom.opaque or atom.placement is not Placement.SHARD:
        return None
    counted.run.demand(argument_at(counted.node, 0), value(atom), "len()")
    return REPLICATED


def _counted_by_all(counted: _Counted) -> Value | None:
    """Only the rows of all ranks tell how many these are: those at places, or pairs."""
    atom = counted.atom
    if not _is_tensor(atom):
        return None
    picked = atom.placement is Placement.ROWS and bool(atom.definition_sites)
    by_all = picked or atom.placement is Placement.COUPLED
    return tensor_sizes.elements(atom) if by_all else None


def _item_of_list(counted: _Counted) -> Value | None:
    atom = counted.atom
    if not isinstance(atom, Data) or counted.run.collating:
        return None
    item = per_sample_lists.is_item_of_list(atom)
    return value(replace(atom, form=Layout.TENSOR)) if item else None


def _mixed_items(counted: _Counted) -> Value | None:
    mixed = per_sample_lists.mixed_items(counted.run, counted.atom)
    return tensor_sizes.elements(mixed) if mixed is not None else None


def _rows(counted: _Counted) -> Value | None:
    """The rows of a rank, or those of all ranks."""
    atom = counted.atom
    if not _is_tensor(atom) or atom.dim:
        return None
    shown_listed = atom.form in SEVERAL_TENSORS and narrowing.is_shown_listed(
        counted.run, counted.node
    )
    own = atom.placement is Placement.SHARD and not shown_listed
    of_all = atom.form is Layout.GATHERED
    return tensor_sizes.count(atom, counted.node) if own or of_all else None


def _is_tensor(atom: Atom) -> TypeGuard[Data]:
    """Whether this is a tensor, and not the sizes of one."""
    return isinstance(atom, Data) and atom.form is not NumberKind.SHAPE


_RULES = (
    _several_tensors,
    _perhaps_several_tensors,
    _counted_by_all,
    _item_of_list,
    _mixed_items,
    _rows,
)
"""The first that says something of what is counted is right; of others, all ranks have as many."""
