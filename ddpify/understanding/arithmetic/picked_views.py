"""Views of some samples of a batch, as ``z[0]`` or ``z.narrow(0, 1, 2)``, changed in place.

Such a change is a write into the batch, wherever it happens: ``first = z[0]; first.mul_(2)``. What
may be such a view carries the expressions that took it, until a computation gives a new tensor.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arithmetic import row_writes, tensor_pairs
from ddpify.understanding.forms import Layout
from ddpify.understanding.operators.in_place import changes_values
from ddpify.understanding.operators.rules import Rule
from ddpify.understanding.operators.table import rule_of
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import (
    NO_ROWS,
    Atom,
    Data,
    Number,
    QualifiedName,
    Tup,
    Value,
    value,
    without_views,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

# Methods and functions that may give a view of some of the samples.
_TAKING = frozenset("select narrow diagonal unbind chunk split tensor_split unfold".split())
_COMPUTING = (Rule.ELEMENTWISE, Rule.PER_SAMPLE, Rule.MIXING, Rule.COUPLING)
# What ends in an underscore, and leaves the elements as they are.


def of_item(run: RunState, node: cst.Subscript, made: Value) -> Value:
    """What an index gives: a view of the samples, if it takes some of them by position."""
    owner = run.seen(node.value)
    if not any(isinstance(a, Data) and a.views for a in owner.atoms):
        made = without_views(made)  # what an index shows is not what it takes
    taken = _was_rows(run, node.value) and not row_writes.is_at_own_rows(run, node)
    sliced = isinstance(node.slice[0].slice, cst.Slice) and _is_of_replicated(owner, made)
    return _seen_through(made, node) if taken or sliced else made


def _is_of_replicated(owner: Value, made: Value) -> bool:
    """Whether a slice as long as the batch is a rank's part of what all ranks hold."""
    return not owner.data and any(data.placement is Placement.SHARD for data in made.data)


def of_call(
    run: RunState, node: cst.BaseExpression, name: str, shown: cst.BaseExpression, made: Value
) -> Value:
    """What a function or method makes of ``shown``: perhaps a view of some samples, or new."""
    computes = rule_of(name) in _COMPUTING and name not in _TAKING
    if computes and name not in row_writes.PERHAPS_VIEWS and not changes_values(name):
        return without_views(made)
    if name in _TAKING and _is_of_replicated(run.seen(shown), made):
        return _seen_through(made, node)
    left = [a for a in made.atoms if isinstance(a, Data) and a.placement is Placement.SHARD]
    if name in _TAKING and _was_rows(run, shown) and (not left or name == "diagonal"):
        return _seen_through(made, node)
    return made


def change(run: RunState, held: Value, given: Iterable[cst.BaseExpression] = ()) -> None:
    """A value is changed in place by what these expressions give: a write where it is a view."""
    for view in {view for a in held.atoms if isinstance(a, Data) for view in a.views}:
        _write_through(run, view, list(given))


def _write_through(
    run: RunState, view: cst.BaseExpression, given: list[cst.BaseExpression]
) -> None:
    base = _base(run, view)
    seen = run.seen(base)
    rows = [data for data in seen.data if data.placement is Placement.SHARD]
    if run.collating:
        run.mixes(view, *rows)
        return
    # What is gathered there is a copy, which others do not show.
    if run.reduces(base) and not row_writes.is_fresh(base):
        loaders = frozenset(one for a in seen.of(Data) for one in a.loaders)
        run.demand(view, value(Data(Placement.SHARD, loaders, form=Layout.PACKED)), uses.A_ROW)
    for data in rows:
        row_writes.write_into_all(run, view, data)
    if _is_of_replicated(seen, run.seen(view)):
        row_writes.refuse(run, view, run.seen(view).data[0])  # all ranks hold all of its rows
    replicated = [a for a in seen.of(Data) if a.form is Layout.GATHERED]
    if replicated:
        held = tensor_pairs.held_tensors([(one, run.seen(one)) for one in given])
        tensor_pairs.beside_replicated(run, [(base, replicated[0]), *held])


def _base(run: RunState, view: cst.BaseExpression) -> cst.BaseExpression:
    """What a view shows some samples of."""
    if isinstance(view, cst.Subscript):
        return view.value
    assert isinstance(view, cst.Call)
    function = any(isinstance(a, QualifiedName) for a in run.seen(view.func).atoms)
    if function or not isinstance(view.func, cst.Attribute):
        return view.args[0].value
    return view.func.value


def _was_rows(run: RunState, shown: cst.BaseExpression) -> bool:
    """Whether an expression gives a rank's rows, or gave them before it was gathered."""
    held = [*run.seen(shown).atoms]
    got = run.facts.reductions.reduced.get(shown, ())
    if got and run.reduces(shown):
        held += got
    return any(map(_is_rows, held))


def _is_rows(atom: Atom) -> bool:
    if not isinstance(atom, Data) or atom.placement is not Placement.SHARD:
        return False
    return atom.dim != NO_ROWS and atom.form in (Layout.TENSOR, Layout.STATE)


def _seen_through(made: Value, view: cst.BaseExpression) -> Value:
    return value(*(_atom_seen_through(atom, view) for atom in made.atoms))


def _atom_seen_through(atom: Atom, view: cst.BaseExpression) -> Atom:
    if isinstance(atom, Tup):
        return Tup(tuple(_seen_through(item, view) for item in atom.items))
    if isinstance(atom, Data):
        return replace(atom, views=atom.views | {view})
    if isinstance(atom, Number):
        return Data(Placement.REPLICATE, views=frozenset({view}))
    return atom
