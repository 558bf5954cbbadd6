"""Whether a collate function's loop over samples goes by their order, or by their places.

A rank's collate function gets some samples of the batch: one that is the first of them is not the
first of the batch. So what a sample becomes must not go by its number, by what the samples before
it have left, or by what lies beside it in a list of something else. ``sample_numbers`` tells which
numbers are places alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import earlier_rounds
from ddpify.understanding.batching import collating, earlier_samples, row_numbers, sample_numbers
from ddpify.understanding.forms import Layout
from ddpify.understanding.liveness import bound_in, left_behind
from ddpify.understanding.placement import Placement
from ddpify.understanding.structure import walk
from ddpify.understanding.values import (
    NO_ROWS,
    Atom,
    Const,
    Data,
    Instance,
    Number,
    Tup,
    Value,
    deep_atoms,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

Through = cst.For | cst.CompFor
_ADDING = frozenset("add append extend insert update".split())
_FILLING = frozenset("append fill_ full_like insert new_full".split())


def gone_through(run: RunState, loop: Through, element: Value, body: cst.CSTNode) -> None:
    """Note that the samples that a loop gets depend on each other, where its rounds do.

    Args:
        loop: A loop in a collate function, or the ``for`` of a comprehension.
        element: What it gets in each round.
        body: What it does in each round.
    """
    found = sample_numbers.samples_in(element) if run.collating else []
    if found and (_is_of_all(run, loop.iter) or _by_order(run, loop, found, body)):
        _depend(run, loop.iter, found)


def taken_apart(run: RunState, node: cst.BaseExpression, listed: Instance) -> None:
    """Note that a collate function takes some samples out of a list, or changes their order."""
    if run.collating:
        held = listed.elements
        _depend(run, node, [*sample_numbers.samples_in(held), *filter(_is_picked, held.data)])


def out_of_order(run: RunState, node: cst.BaseExpression, held: Value) -> Value:
    """Samples, or positions of them, that are not in the order of the batch, or not all of it.

    A collate function then takes them of all samples.
    """
    held = row_numbers.shifted(held)
    if not run.collating:
        return held
    _depend(run, node, [*sample_numbers.samples_in(held), *filter(_is_picked, held.data)])
    return value(*(_as_sample(atom) for atom in held.atoms))


def _is_picked(data: Data) -> bool:
    return data.placement is Placement.ROWS


def _as_sample(atom: Atom) -> Atom:
    if not isinstance(atom, Data) or not _is_picked(atom):
        return atom
    return replace(atom.placed(Placement.SHARD), dim=NO_ROWS, definition_sites=frozenset())


def put_beside(
    run: RunState, node: cst.BaseExpression, given: Sequence[Value], each: Sequence[Value]
) -> None:
    """Note that ``zip()`` puts samples beside what does not come of samples: by their places.

    each: what the rounds get of each of those that are ``given``.
    """
    pairs = zip(given, each, strict=True) if run.collating else ()
    found = [(sample_numbers.samples_in(held), of_each) for held, of_each in pairs]
    samples = [one for whole, part in found if not whole for one in sample_numbers.samples_in(part)]
    if samples and any(not any(isinstance(a, Data) for a in deep_atoms(one)) for one in each):
        _depend(run, node, samples)


def are_samples(run: RunState, element: Value) -> bool:
    """Whether a loop of a collate function gets a sample in each round."""
    return run.collating and bool(sample_numbers.samples_in(element))


def own_number(run: RunState, element: Value, taken: Value) -> Value:
    """What a list takes in a loop that gets a sample in each round: its own, also where a number.

    ``lengths.append(wave.shape[0])`` adds an item for each sample, whatever the number is.
    """
    samples = sample_numbers.samples_in(element) if run.collating else []
    numbers = all(isinstance(atom, (Const, Number)) for atom in taken.atoms)
    if not samples or not taken or not numbers:
        return taken
    return value(Data(Placement.SHARD, samples[0].loaders, dim=NO_ROWS))


def depend(run: RunState, node: cst.CSTNode, held: Value) -> None:
    """Note that the samples that something holds depend on each other."""
    _depend(run, node, sample_numbers.samples_in(held))


def _depend(run: RunState, node: cst.CSTNode, samples: Sequence[Data]) -> None:
    run.mixes(node, *(replace(one, dim=0, form=Layout.TENSOR) for one in samples))


def are_of_one(held: Value) -> bool:
    """Whether these are one sample, what it brings, or a tuple of such things."""
    inside = [one for pair in held.of(Tup) for item in pair.items for one in item.atoms]
    return any(isinstance(a, Data) and a.dim == NO_ROWS for a in (*held.atoms, *inside))


def _is_of_all(run: RunState, iterable: cst.BaseExpression) -> bool:
    """Whether the round of one sample goes through all of them: each is put beside each other."""
    held = run.seen(iterable)
    if not run.rounds or are_of_one(held):
        return False
    loop = run.rounds[-1].loop
    lists = [one for one in held.of(Instance) if one.type == "list"]
    return not any(run.module.holds(loop, one.site) for one in lists)


def _by_order(run: RunState, loop: Through, samples: Sequence[Data], body: cst.CSTNode) -> bool:
    counters, offsets = sample_numbers.counters(run, loop, body)
    if offsets:
        collating.note_numbers(run, samples)
    if sample_numbers.enter(run, loop, body, counters, offsets):
        return True
    if isinstance(loop, cst.For) and (_leaves(run, loop, counters) or _sorts(run, loop)):
        return True
    above = run.module.parents[loop] if isinstance(loop, cst.CompFor) else loop
    if earlier_samples.go_on(run, above):
        return True
    structure, counting = run.module.structure, frozenset(counters | offsets)
    return isinstance(loop, cst.For) and any(
        earlier_rounds.goes_by(structure, loop, one, ignoring=counting)
        for one in sample_numbers.kept(body)
    )


def _leaves(run: RunState, loop: cst.For, counters: set[str]) -> bool:
    """Whether a name goes on from a sample's elements behind the loop: the last's, or a sum's.

    So does a number of samples.
    """
    function = run.module.structure.function(loop)
    names = left_behind(function.body.body, loop) if function is not None else frozenset()  # type: ignore[arg-type]
    return bool(names & counters) or any(
        map(
            sample_numbers.is_of_a_sample,
            (atom for name in names for atom in run.lookup(name).atoms),
        )
    )


def _sorts(run: RunState, loop: cst.For) -> bool:
    """Whether samples get a place by what they are, as in ``found[label].append(x)``."""
    new = bound_in(loop)
    for node in walk(loop.body):
        owner = node.value if isinstance(node, cst.Subscript) else None
        if not isinstance(owner, cst.Name) or owner.value in new or not _is_filled(run, node):
            continue
        if sample_numbers.has_sample(run, owner):
            continue  # what is taken out of a sample
        places = [e.slice.value for e in node.slice if isinstance(e.slice, cst.Index)]  # type: ignore[attr-defined]
        if places and all(sample_numbers.has_sample(run, place) for place in places):
            return True
    return False


def _is_filled(run: RunState, node: cst.CSTNode) -> bool:
    """Whether an item is assigned, added to, or changed by a method."""
    above = run.module.parents[node]
    if isinstance(above, cst.Attribute):
        return isinstance(run.module.parents[above], cst.Call) and above.attr.value in _ADDING
    return isinstance(above, (cst.AssignTarget, cst.AugAssign)) and above.target is node
