"""Single samples of a batch that meet others: ``x[i] - x[j]``, ``x[i] - x``.

What treats one sample after another is right on a rank's own samples. What compares a sample with
others needs those of all ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.batching import row_numbers
from ddpify.understanding.forms import Layout
from ddpify.understanding.placement import Placement
from ddpify.understanding.syntax import UNPACKED, code_of
from ddpify.understanding.values import NO_ROWS, REPLICATED, Atom, Data, Tup, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

LOOP = "loop "  # before the loop whose rounds take a sample each
_Shown = tuple[cst.BaseExpression, Data]


def taken(run: RunState, rows: Data, index: cst.BaseSlice) -> Data:
    """One sample of a batch's rows, at a position that a loop counts.

    What is computed of the position is one among the samples of all ranks.
    """
    if isinstance(index, cst.Index) and row_numbers.are_shifted(run.seen(index.value)):
        run.demand(index.value, value(replace(rows, form=Layout.PACKED)), uses.A_STATISTIC)
        if run.collating:
            run.mixes(index.value, rows)
    return at(index, replace(rows, definition_sites=frozenset(), dim=NO_ROWS))


def at(index: cst.BaseSlice, sample: Data) -> Data:
    """A sample that ``samples[index]`` takes out of a list of them."""
    by = {code_of(index.value)} if isinstance(index, cst.Index) else ()
    return replace(sample, taken_by=frozenset(by))


def first(taken: Atom) -> Atom:
    """What ``next()`` takes of samples, known to be one at a place; other things as they are."""
    if isinstance(taken, Tup):
        return Tup(tuple(value(*map(first, item.atoms)) for item in taken.items))
    sample = isinstance(taken, Data) and (_is_single(taken) or taken.placement is Placement.ROWS)
    return at(cst.Index(cst.Integer("0")), taken) if sample else taken  # type: ignore[arg-type]


def one_by_one(run: RunState, row: Data, rows: cst.BaseExpression) -> Data:
    """One sample of ``rows``, as a loop over them gives it, perhaps beside others of its place."""
    above = run.module.parents.get(rows)
    call = run.module.parents.get(above) if isinstance(above, cst.Arg) else None
    counted = _counted_by(run, call)
    if counted is not None:
        return replace(row, taken_by=frozenset({counted}))
    while above is not None and (isinstance(above, cst.Arg) or run.calls_builtin(above, "zip")):
        above = run.module.parents.get(above)
    if not isinstance(above, (cst.For, cst.CompFor)):
        return row
    return replace(row, taken_by=frozenset({f"{LOOP}{id(above)}"}))


def _counted_by(run: RunState, call: cst.CSTNode | None) -> str | None:
    """The name of the positions that ``for i, row in enumerate(rows)`` counts."""
    loop = run.module.parents.get(call) if call is not None else None
    if call is None or not run.calls_builtin(call, "enumerate"):
        return None
    target = loop.target if isinstance(loop, (cst.For, cst.CompFor)) else None
    return code_of(target.elements[0].value) if isinstance(target, UNPACKED) else None


def meet_others(run: RunState, node: cst.CSTNode, operands: Sequence[_Shown]) -> Value | None:
    """What samples make with other samples of their batch; None where none meets another.

    All ranks make it of the samples of all.
    """
    if not run.frames_forward() and not run.collating:
        return _of_a_loop(run, operands)
    pairs = [(one, other) for (_, one), (_, other) in permutations(operands, 2)]
    if not any(_differ(*pair) or (run.collating and _is_picked(*pair)) for pair in pairs):
        return None
    for shown, data in operands:
        rows = replace(data, definition_sites=frozenset(), dim=max(data.dim, 0), form=Layout.PACKED)
        if run.collating:
            run.mixes(node, rows)
        else:
            run.demand(shown, value(rows), uses.A_STATISTIC)
    return _put_together(operands) if run.collating else REPLICATED


def _of_a_loop(run: RunState, operands: Sequence[_Shown]) -> Value | None:
    """What a loop makes of each sample and of one at a fixed place, which is that of all ranks."""
    picked = [(e, d) for e, d in operands if d.placement is Placement.ROWS]
    fixed = [(e, d) for e, d in picked if d.fixed_places]
    others = [d for e, d in picked if (e, d) not in fixed]
    beside = fixed or [(e, d) for e, d in operands if _are_plain(d) and _in_turn(run, others)]
    if not beside or not others:
        return None
    for shown, data in beside:
        run.demand(shown, value(data), uses.A_STATISTIC)
    return value(*others)


def _are_plain(data: Data) -> bool:
    """Whether these surely are all rows of a rank."""
    rows = data.placement is Placement.SHARD and data.form is Layout.TENSOR
    return rows and data.dim == 0 and not data.opaque and not data.one_each


def _in_turn(run: RunState, picked: Sequence[Data]) -> bool:
    """Whether a loop takes one sample after the other."""
    positions = run.facts.rows.positions
    single = [one for one in picked if one.dim == NO_ROWS or one.form is Layout.ROW]
    return any(d.taken_by or not positions.keys().isdisjoint(d.definition_sites) for d in single)


def _put_together(operands: Sequence[_Shown]) -> Value:
    """What a collate function, which gets all samples, makes of one beside others: one, or all."""
    held = [data for _, data in operands]
    made = next((data for data in held if not _is_single(data)), held[0])
    return value(replace(made.placed(Placement.SHARD), dim=made.dim, taken_by=frozenset()))


def _differ(one: Data, other: Data) -> bool:
    """Whether a sample that was taken by a position meets one taken by another, or many."""
    elements = isinstance(one.form, Layout) and isinstance(other.form, Layout)  # and no sizes
    if not elements or not one.taken_by or not _is_single(one):
        return False
    if _is_single(other):
        known = bool(other.taken_by) or bool(one.fixed_places)
        return known and other.taken_by != one.taken_by
    rows = other.placement is Placement.SHARD and other.form is Layout.TENSOR and not other.opaque
    return rows and other.dim == 0


def _is_picked(one: Data, other: Data) -> bool:
    """Whether one is a row at a fixed place of many, as ``list(x)[0]`` is, and the other many."""
    at_a_place = one.placement is Placement.ROWS and bool(one.fixed_places)
    return at_a_place and _are_plain(other)


def _is_single(data: Data) -> bool:
    return data.dim == NO_ROWS or data.form is Layout.ROW
