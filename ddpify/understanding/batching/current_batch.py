"""Which batch is current: reductions use the sizes of the batch that came last.

``next(iter(check))`` in a training step takes another batch. What is reduced after it uses the
sizes of that one, though it may come from the batch of the step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding.batching import carried_values, held_parts, joint_loaders
from ddpify.understanding.facts import LateUse
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import (
    UNKNOWN,
    Atom,
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
    from ddpify.understanding.choices import BatchSwitch
    from ddpify.understanding.run_state import RunState

Places = frozenset[object]  # where loaders are made; with them, collections that are being aged
_COLLECTIONS = ("list", "dict", "generator")


def taken(run: RunState, sources: frozenset[Instance]) -> None:
    """A batch has come from one of these loaders."""
    if sources:
        run.current_loaders = frozenset({sources})


def passed(run: RunState, sources: frozenset[Instance], batch: Value) -> None:
    """Before a batch comes of these loaders: what names hold of them is of an earlier batch."""
    for written in (run.written, *run.writing):
        written.clear()  # what they hold may be of an earlier batch
    run.note_written(set(carried_values.places_in(batch)))
    places: Places = frozenset(one.place for one in sources)
    run.batches_so_far.append(places)
    for scope in _scopes(run):
        for name, held in scope.names.items():
            if not _may_hold_parts(held) or not held_parts.may_be_in(run, held):
                continue
            if any(map(_is_part, _held_in(held))):
                scope.names[name] = _of_the_past(run, held, places)


def held_since(run: RunState, begun: int, held: Value) -> Value:
    """What was evaluated after ``begun`` batches: those that came since have passed it."""
    since = run.batches_so_far[begun:]
    if not since or not any(map(_is_part, _held_in(held))):
        return held
    return _of_the_past(run, held, frozenset().union(*since))


def perhaps_earlier(run: RunState, held: Value) -> Value:
    """One of several batches that came in turn: of the current one, or of an earlier one."""
    places: Places = frozenset(one.place for one in joint_loaders.sources(held))
    return join(held, _of_the_past(run, held, places)) if places else held


def are_in_turn(held: Value) -> bool:
    """Whether a collection holds several batches that came in turn."""
    parts = [a for a in _held_in(held) if isinstance(a, Data) and a.placement.local]
    return any(a.past for a in parts) and not all(a.past for a in parts)


def _scopes(run: RunState) -> Iterator[Scope]:
    """The scopes of the calls in progress, and those around functions that are made by now."""
    seen: set[int] = set()
    for scope in [*(frame.scope for frame in run.frames), *(f.scope for f in run.defined)]:
        around: Scope | None = scope
        while around is not None and id(around) not in seen:
            seen.add(id(around))
            yield around
            around = around.parent


def _may_hold_parts(held: Value) -> bool:
    """Whether there is anything to look into: most names stand for functions and modules."""
    return any(type(atom) in (Data, Tup, Instance) for atom in held.atoms)


def _held_in(held: Value) -> Iterator[Atom]:
    """What a name holds, and what the collections that it holds do."""
    for atom in deep_atoms(held):
        yield atom
        if isinstance(atom, Instance) and atom.type in _COLLECTIONS:
            yield from deep_atoms(atom.elements)


def _is_part(atom: Atom) -> bool:
    return isinstance(atom, Data) and atom.placement.local and not atom.past


def _of_the_past(run: RunState, held: Value, places: Places) -> Value:
    return value(*(_aged(run, atom, places) for atom in held.atoms))


def _aged(run: RunState, atom: Atom, places: Places) -> Atom:
    if isinstance(atom, Tup) and atom.depth == 1:  # deeper ones may grow in each round
        return Tup(tuple(_of_the_past(run, item, places) for item in atom.items))
    if isinstance(atom, Data) and _is_part(atom) and not _is_made_for(run, atom):
        return replace(atom, past=any(one.place in places for one in atom.loaders))
    if isinstance(atom, Instance) and _is_of_a_round(run, atom):
        return _aged_collection(run, atom, places)
    return atom


def _is_of_a_round(run: RunState, made: Instance) -> bool:
    """Whether a round of a loop makes this collection, and it is no iterator of batches."""
    in_round = made.type in _COLLECTIONS and bool(run.made_in.get(made))
    return in_round and made not in run.over_loaders


def _aged_collection(run: RunState, made: Instance, places: Places) -> Instance:
    """A collection that a round has made for its batch: the next round makes another one there."""
    if made in places:  # it holds itself
        return run.aged[made]
    if not any(map(_is_part, _held_in(value(made)))):
        return made
    if made not in run.aged:
        run.aged[made] = Instance(made.site, made.module, made.type, calls=made.calls)
    for key, one in list(made.attributes.items()):
        run.put(run.aged[made], key, _of_the_past(run, one, places | {made}))
    return run.aged[made]


def _is_made_for(run: RunState, rows: Data) -> bool:
    """Whether the script makes these rows for a batch that may come later."""
    return bool(rows.names) and rows.names <= run.facts.random.made_replicated.keys()


def asked(run: RunState, sources: frozenset[Instance], batch: Value) -> None:
    """``next()`` has given a batch, perhaps while a loop in progress has another loader's."""
    loops = [loop for frame in run.frames for loop in frame.loops]
    in_use = any(group.isdisjoint(sources) for loop in loops for group in loop.loaders)
    if in_use and any(owner.isdisjoint(sources) for owner in run.current_loaders):
        run.facts.batches.beside |= sources
    passed(run, sources, batch)
    taken(run, sources)


def took_replicated(run: RunState, sources: frozenset[Instance]) -> None:
    """``next()`` has given a replicated batch."""
    if sources and not any(loader.site in run.choices.beside for loader in sources):
        run.current_replicated |= {sources}
        taken(run, sources)


def switched(run: RunState, statement: cst.CSTNode, switch: BatchSwitch) -> None:
    """Before a statement, the batch of these loaders becomes the current one, if it is not."""
    made = {one.place for one in switch.loaders}
    if any({one.place for one in owner} != made for owner in run.current_loaders):
        run.facts.batches.switched.add(statement)
    if switch.rows:
        _back_to(run, statement, switch)
    taken(run, switch.loaders)


def _back_to(run: RunState, statement: cst.CSTNode, switch: BatchSwitch) -> None:
    """Before a statement, some names hold the current batch's rows; all others, those of others."""
    names = run.frame.scope.names
    came = {name: _ages(names[name]) for name in {switch.rows, *switch.names} & names.keys()}
    if True not in came.get(switch.rows, ()):
        return
    back = {name: names[name] for name, ages in came.items() if ages == came[switch.rows]}
    run.facts.batches.switched.add(statement)
    passed(run, switch.loaders, UNKNOWN)
    for name, held in back.items():
        names[name] = value(*map(_of_now, held.atoms))


def _ages(held: Value) -> set[bool]:
    """Whether a name holds parts of earlier batches, of the current one or of either."""
    return {a.past for a in _held_in(held) if isinstance(a, Data) and a.placement.local}


def _of_now(atom: Atom) -> Atom:
    if isinstance(atom, Tup):
        return Tup(tuple(value(*map(_of_now, item.atoms)) for item in atom.items))
    return replace(atom, past=False) if isinstance(atom, Data) and atom.past else atom


def left(run: RunState) -> None:
    """A loop has ended: the batch of the loop around it is current again, if it has one."""
    ended = run.frame.loops[-1].own
    around = [loop.own for frame in run.frames for loop in frame.loops if loop.own]
    if ended:
        taken(run, around[-2] if len(around) > 1 else ended)


def comprehension_ended(run: RunState, sources: frozenset[Instance]) -> None:
    """A comprehension has ended that went through batches of these loaders."""
    around = [loop.own for frame in run.frames for loop in frame.loops if loop.own]
    if sources:
        taken(run, around[-1] if around else sources)


def used(run: RunState, node: cst.CSTNode, rows: Iterable[Data]) -> None:
    """Something uses the sizes of the batch that these rows, or parts, come from."""
    rows = list(rows)
    earlier = frozenset(one for data in rows if data.past for one in data.loaders)
    if earlier:
        found = LateUse(run.site(node), earlier, earlier, run.call_path)
        run.facts.batches.past_batches.setdefault(node, found)
    for data in rows:
        loaders = frozenset(one for one in data.loaders if one.role == "loader")
        made = {one.place for one in data.loaders}  # what was decided names those of earlier runs
        for owner in run.current_loaders:
            if loaders and made.isdisjoint(one.place for one in owner):
                found = LateUse(run.site(node), loaders, owner, run.call_path)
                run.facts.batches.late_uses.setdefault(node, found)


def reduced(run: RunState, node: cst.CSTNode, parts: Iterable[Data]) -> None:
    """Something is reduced; what comes from two batches of different sizes fits neither."""
    parts = list(parts)
    if node not in run.choices.named:
        used(run, node, parts)
    for data in parts:
        counted = data.ragged or data.placement is Placement.WEIGHTED
        if not counted and joint_loaders.unequal(run, data.loaders, data.loaders):
            found = LateUse(run.site(node), data.loaders, data.loaders)
            run.facts.batches.two_sizes.setdefault(node, found)
