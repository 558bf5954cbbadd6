"""Means, sums and counts of one batch that code reads when the next batch has come.

``previous = x.mean(0)`` at the end of a round is read in the next one, whose batch may be shared in
other proportions: each rank's part of the earlier batch must have been made global by then. Names
that a round takes over from before it are told by liveness. Of what attributes, entries of
containers and names of functions around hold, a read that comes before this round's own write is
noted, and what is written there is reduced.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeGuard

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.batching import held_parts
from ddpify.understanding.liveness import reads, taken_over
from ddpify.understanding.placement import Placement
from ddpify.understanding.structure import children
from ddpify.understanding.values import (
    UNKNOWN,
    Atom,
    Data,
    Instance,
    Tup,
    Value,
    deep_atoms,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_REDUCIBLE = (Placement.MEAN, Placement.SUM, Placement.WEIGHTED, Placement.COUNT)


def read(run: RunState, owner: Instance, key: str, held: Value) -> Value:
    """What an object holds under a key, with parts of an earlier batch marked as such."""
    if (owner, key) in run.written.places or not any(frame.loops for frame in run.frames):
        return held  # of this batch: what it holds makes no difference, and is not looked into
    if not held_parts.may_be_in(run, held):
        return held
    local = any(isinstance(a, Data) and a.placement.local for a in deep_atoms(held))
    if not local or not run.in_batch_loop() or not run.is_older(owner):
        return held
    if any(map(_is_part, held.atoms)):
        _note(run, (owner, key))
    return _marked(held)


def places_in(held: Value) -> Iterator[tuple[object, str]]:
    """What the objects hold that a value is made of, such as those that a collate function made."""
    left, seen = list(deep_atoms(held)), set()
    while left:
        atom = left.pop()
        if not isinstance(atom, Instance) or atom in seen:
            continue
        seen.add(atom)
        for key, one in atom.attributes.items():
            yield atom, key
            left += deep_atoms(one)


def read_around(run: RunState, name: str, held: Value) -> Value:
    """What a name of a function around, or of the module, holds: perhaps of an earlier batch."""
    place = (run.module, name)
    late = run.set_around.get(place)
    if late is not None and run.in_batch_loop():
        held = join(held, _marked(late))
    if any(_is_part(atom) and atom.past for atom in held.atoms):
        _note(run, place)
    return held


def set_around(run: RunState, name: str, new: Value) -> None:
    """A function has set a name of a function around it, or of the module."""
    place = (run.module, name)
    known = run.set_around.get(place, UNKNOWN)
    parts = join(known, value(*filter(_is_part, new.atoms)))
    if parts != known:
        run.set_around[place] = parts
        run.reads_change = True


def _marked(held: Value) -> Value:
    return value(*map(_of_the_past, held.atoms))


def _of_the_past(atom: Atom) -> Atom:
    if isinstance(atom, Tup) and atom.depth == 1:
        return Tup(tuple(map(_marked, atom.items)))
    return replace(atom, past=True) if isinstance(atom, Data) and atom.placement.local else atom


def _note(run: RunState, place: tuple[object, str]) -> None:
    run.reads_change |= place not in run.carried
    run.carried.add(place)


def _is_part(atom: Atom) -> TypeGuard[Data]:
    return isinstance(atom, Data) and atom.placement in _REDUCIBLE


def assigned(run: RunState, target: cst.Name, shown: cst.BaseExpression, new: Value) -> None:
    """A name gets a value that a later round may read before it gets the next."""
    if not _may_be_carried(run, target.value):
        return  # what the value holds makes no difference: it is not looked into
    if any(map(_is_part, deep_atoms(new))) and run.in_batch_loop() and _is_carried(run, target):
        _demand(run, shown, target.value)


def _may_be_carried(run: RunState, name: str) -> bool:
    """Whether a later round of any loop may read a name before it sets it."""
    scope, loops = run.frame.scope, run.frame.loops
    return name in scope.shared or any(name in taken_over(loop.node) for loop in loops)


def _is_carried(run: RunState, target: cst.Name) -> bool:
    name = target.value
    if name in run.frame.scope.shared:
        return (run.module, name) in run.carried
    return any(name in taken_over(loop.node) for loop in run.frame.loops if loop.taken)


def stored(run: RunState, owner: Instance, key: str, shown: cst.BaseExpression, new: Value) -> None:
    """An object gets a value that a later round may read before it gets the next."""
    carried = (owner, key) in run.carried and any(map(_is_part, deep_atoms(new)))
    if carried and run.in_batch_loop() and not run.frames_forward():
        _demand(run, shown, "")


def outlive(run: RunState, shown: cst.BaseExpression) -> None:
    """A value gets a name that a later round may read, wherever that is."""
    if run.in_batch_loop():
        _demand(run, shown, "")


def _demand(run: RunState, shown: cst.BaseExpression, name: str) -> None:
    """Ask for the global value of each part that does not contain what the name held before."""
    parts = [atom for atom in run.seen(shown).atoms if isinstance(atom, Data) and _is_part(atom)]
    if not parts or name in reads(shown):
        for inner in _inside(shown):
            _demand(run, inner, name)
        return
    for data in parts:
        run.demand(shown, value(data), uses.A_KEPT_COLLECTION)


def _inside(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The outermost expressions in a node."""
    for one in children(node):
        if isinstance(one, cst.BaseExpression):
            yield one
        else:
            yield from _inside(one)
