"""Loops: what each round binds, and whether it takes a batch."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import TYPE_CHECKING, TypeGuard

import libcst as cst

from ddpify.understanding.batching import (
    collating_order,
    current_batch,
    earlier_samples,
    handmade_batches,
    joint_loaders,
    repeated_changes,
)
from ddpify.understanding.forms import SEVERAL_TENSORS, Layout
from ddpify.understanding.frames import Loop
from ddpify.understanding.language import (
    assignments,
    branches,
    elements,
    longer_tuples,
    set_attributes,
    sums_of_samples,
    totals,
)
from ddpify.understanding.libraries import instances, loaded_files, random_numbers
from ddpify.understanding.liveness import taken_over
from ddpify.understanding.placement import Placement
from ddpify.understanding.syntax import UNPACKED
from ddpify.understanding.values import (
    UNKNOWN,
    Atom,
    Class,
    Data,
    Instance,
    Scope,
    Tup,
    Value,
    deep_atoms,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_BATCHES = (*SEVERAL_TENSORS, Layout.YIELDED, Layout.RAGGED)


def leave(run: RunState, *, ends: bool = False) -> bool:
    """Note the names that a round leaves, which may end the loop; what is behind is not reached."""
    if run.frame.loops:
        loop = run.frame.loops[-1]
        (loop.broken if ends else loop.left).append(dict(run.frame.scope.names))
    return False


def for_(run: RunState, node: cst.For) -> bool:
    """A ``for`` loop."""
    iterable = run.eval(node.iter)

    def bind() -> None:
        element = elements.iterate(run, node.iter, iterable)
        replicated = frozenset(instances.replicated_loaders(run, iterable))
        run.frame.loops[-1].takes_replicated = bool(replicated)
        current_batch.took_replicated(run, replicated)
        loaders = instances.loaders_of(run, iterable)
        held = any(_is_of_batch(a, loaders) for a in _held_in(element))
        # Parts of a tensor, as split() gives them, are no new batches.
        loaded = held and not all(isinstance(a, Data) for a in iterable.atoms)
        if loaded or (run.choices.by_hand and _yields_rows(iterable, element)):
            run.takes_batch()
            joint_loaders.taken_at_once(run, node.iter, element)
            run.frame.loops[-1].loaders.append(joint_loaders.sources(element))
        if any(isinstance(a, Instance) for a in iterable.atoms):
            run.frame.loops[-1].own = joint_loaders.sources(element) or replicated
            if loaded or loaders or _is_own(iterable):
                current_batch.passed(run, joint_loaders.last(run, element), element)
            current_batch.taken(run, joint_loaders.last(run, element))
        run.frame.loops[-1].element = element
        run.frame.loops[-1].rows = tuple(filter(_is_of_one_sample, deep_atoms(element)))
        assignments.assign(run, node.target, _named_target(run, node.target, element))

    with run.taking_rows(node.iter, random_numbers.rows_of(run, node.iter)):
        return _loop(run, node, node.body, node.orelse, bind)


def _is_of_batch(atom: Atom, loaders: frozenset[Instance]) -> bool:
    """Whether this is of a batch that a loop gets: by its form, or from a loader it goes over."""
    if not isinstance(atom, Data):
        return False
    rows = atom.placement is Placement.SHARD and bool(atom.loaders & loaders)
    return rows or atom.form in _BATCHES


def _is_own(iterable: Value) -> bool:
    """Whether a loop goes through an object of the project's own, which may take batches."""
    return any(isinstance(one.type, Class) for one in iterable.of(Instance))


def _held_in(element: Value) -> Iterator[Atom]:
    """What a round gets: an object that a collate function made holds a batch in attributes."""
    for atom in deep_atoms(element):
        yield atom
        if isinstance(atom, Instance) and isinstance(atom.type, Class):
            yield from (one for held in atom.attributes.values() for one in held.atoms)


def _is_of_one_sample(atom: Atom) -> TypeGuard[Data]:
    """Whether this is a row of the batch, or the position of one, that could be made global."""
    return isinstance(atom, Data) and bool(atom.definition_sites) and atom.is_of_one_sample


def _named_target(run: RunState, target: cst.BaseExpression, element: Value) -> Value:
    """What a loop binds, with the places where batches in it get their names."""
    if isinstance(target, cst.Name):
        return handmade_batches.split(run, target, handmade_batches.defined(run, element, target))
    if not isinstance(target, UNPACKED) or not run.choices.by_hand:
        return element
    count = len(target.elements)
    parts = [
        _named_target(run, one.value, handmade_batches.unpacked(run, part))
        for position, one in enumerate(target.elements)
        for part in [elements.unpacked(run, element, position, count)]
    ]
    return value(Tup(tuple(parts)))


def while_(run: RunState, node: cst.While) -> bool:
    """A ``while`` loop."""

    def bind() -> None:
        branches.condition(run, node.test)

    return _loop(run, node, node.body, node.orelse, bind)


def _loop(run: RunState, node, body, orelse, bind) -> bool:  # type: ignore[no-untyped-def]
    scope = run.frame.scope
    key = (node, tuple((frame.call, frame.receiver) for frame in run.frames))
    set_attributes.drop(scope.names)  # which a round may set for the next one
    before, against = dict(scope.names), run.frame.against_default
    for name, late in run.loop_ends.get(key, {}).items():
        late = loaded_files.without_models(run, late)
        scope.names[name] = join(scope.names.get(name, UNKNOWN), late)
    started = dict(scope.names)
    run.frame.loops.append(Loop(node, taken=key in run.batch_loops))
    bind()
    taken = run.frame.loops[-1]
    samples = bool(taken.rows) or collating_order.are_samples(run, taken.element)
    with earlier_samples.in_turn(run, node, samples=samples):
        if run.block(body):
            leave(run)
    repeated_changes.check(run, taken)
    if isinstance(node, cst.For):
        collating_order.gone_through(run, node, taken.element, body)
    run.frame.against_default = against
    current_batch.left(run)
    loop = run.frame.loops.pop()
    if loop.taken and key not in run.batch_loops:
        run.batch_loops.add(key)  # what stands before next() comes after it in the next round
        run.reads_change |= loop.asked
    endless = isinstance(node, cst.While) and isinstance(node.test, cst.Name)
    branches.join_ends(run, [_without_rounds(before, loop.own), *loop.left])
    set_attributes.drop(scope.names)
    ends = longer_tuples.foreseen(started, scope.names)
    known = run.loop_ends.get(key)
    if known is not None and run.settling:
        ends = {name: join(known.get(name, UNKNOWN), late) for name, late in ends.items()}
    if known != ends:
        run.loop_ends[key] = ends
        if _starts_otherwise(scope, loop, before, started, ends):
            run.reads_change = True
            if known is None:  # the next round finds what would else take the next pass
                scope.names = before
                return _loop(run, node, body, orelse, bind)
    sums_of_samples.made_by(run, loop, before)
    done = orelse is None or run.block(orelse.body)
    reached = branches.join_ends(run, [*([dict(scope.names)] if done else []), *loop.broken])
    set_attributes.drop(scope.names)
    return reached or endless


def _without_rounds(before: dict[str, Value], own: frozenset[Instance]) -> dict[str, Value]:
    """What names hold after a loop that had no round, if its loader may have had no batch.

    Rows of another loader's batch, which then is the current one still, are left out: after a
    round, and it alone makes this loader's batch the current one, such a name holds what that left.
    """
    if not own:
        return before
    made = {one.place for one in own}
    left = {
        name: value(*(a for a in held.atoms if not _is_anothers(a, made)))
        for name, held in before.items()
    }
    return {name: held for name, held in left.items() if held.atoms or not before[name].atoms}


def _is_anothers(atom: Atom, made: Set[object]) -> bool:
    """Whether this is a part of a batch of other loaders than those that are made there."""
    part = isinstance(atom, Data) and atom.placement.local and bool(atom.loaders)
    return part and made.isdisjoint(one.place for one in atom.loaders)  # type: ignore[attr-defined]


def _starts_otherwise(
    scope: Scope,
    loop: Loop,
    before: dict[str, Value],
    started: dict[str, Value],
    ends: dict[str, Value],
) -> bool:
    """Whether a round reads names that, after what this one has left, it finds to be more."""
    taken = taken_over(loop.node)
    return any(
        join(before.get(name, UNKNOWN), late) != started.get(name)
        and (name in scope.captured or not totals.is_settled(loop, name, late))
        for name, late in ends.items()
        if name in taken or name in scope.captured
    )


def _yields_rows(iterable: Value, element: Value) -> bool:
    """Whether an iterator of the project's own makes a batch in each round."""
    makes = any(
        isinstance(a, Instance) and (a.type == "generator" or isinstance(a.type, Class))
        for a in iterable.atoms
    )
    return makes and any(
        isinstance(a, Data) and a.placement is Placement.SHARD for a in deep_atoms(element)
    )
