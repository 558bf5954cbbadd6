"""Whether a collate function's loop over samples goes by their order, or by their places.

A rank's collate function gets some samples of the batch: one that is the first of them is not the
first of the batch. So what a sample becomes must not go by its number, by what the samples before
it have left, or by what lies beside it in a list of something else. Numbers may be places: the
index in ``padded[i, :n] = sequence``, the image that a row of boxes belongs to, and what is added
to the edges of a graph that lies under others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import earlier_rounds
from ddpify.understanding.batching import collating, earlier_samples
from ddpify.understanding.forms import Layout
from ddpify.understanding.liveness import assigned, bound_in, left_behind
from ddpify.understanding.placement import Placement
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import dotted, names_of
from ddpify.understanding.values import (
    NO_ROWS,
    Const,
    Data,
    Instance,
    Number,
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
    found = samples_in(element) if run.collating else []
    if found and _by_order(run, loop, found, body):
        _depend(run, loop.iter, found)


def taken_apart(run: RunState, node: cst.BaseExpression, listed: Instance) -> None:
    """Note that a collate function takes some samples out of a list, or changes their order."""
    if run.collating:
        _depend(run, node, samples_in(listed.elements))


def are_samples(run: RunState, element: Value) -> bool:
    """Whether a loop of a collate function gets a sample in each round."""
    return run.collating and bool(samples_in(element))


def own_number(run: RunState, element: Value, taken: Value) -> Value:
    """What a list takes in a loop that gets a sample in each round: its own, also where a number.

    ``lengths.append(wave.shape[0])`` adds an item for each sample, whatever the number is.
    """
    samples = samples_in(element) if run.collating else []
    numbers = all(isinstance(atom, (Const, Number)) for atom in taken.atoms)
    if not samples or not taken or not numbers:
        return taken
    return value(Data(Placement.SHARD, samples[0].loaders, dim=NO_ROWS))


def depend(run: RunState, node: cst.CSTNode, held: Value) -> None:
    """Note that the samples that something holds depend on each other."""
    _depend(run, node, samples_in(held))


def samples_in(held: Value) -> list[Data]:
    """What is one sample, or a part of one."""
    return [a for a in deep_atoms(held) if isinstance(a, Data) and a.dim == NO_ROWS]


def _depend(run: RunState, node: cst.CSTNode, samples: Sequence[Data]) -> None:
    run.mixes(node, *(replace(one, dim=0, form=Layout.TENSOR) for one in samples))


def _by_order(run: RunState, loop: Through, samples: Sequence[Data], body: cst.CSTNode) -> bool:
    counters, offsets = _counters(run, loop, body)
    numbers = counters | _numbers(loop)
    if offsets:
        collating.note_numbers(run, samples)
    if _beside_others(run, loop.iter) or _enter(run, body, numbers, offsets):
        return True
    if isinstance(loop, cst.For) and (_leaves(run, loop, counters) or _sorts(run, loop)):
        return True
    above = run.module.parents[loop] if isinstance(loop, cst.CompFor) else loop
    if earlier_samples.go_on(run, above):
        return True
    structure, counting = run.module.structure, frozenset(counters | offsets)
    return isinstance(loop, cst.For) and any(
        earlier_rounds.goes_by(structure, loop, one, ignoring=counting) for one in _kept(body)
    )


def _leaves(run: RunState, loop: cst.For, counters: set[str]) -> bool:
    """Whether a name goes on from a sample's elements behind the loop: the last's, or a sum's.

    So does a number of samples.
    """
    function = run.module.structure.function(loop)
    names = left_behind(function.body.body, loop) if function is not None else frozenset()  # type: ignore[arg-type]
    return bool(names & counters) or any(
        map(_is_of_a_sample, (atom for name in names for atom in run.lookup(name).atoms))
    )


def _sorts(run: RunState, loop: cst.For) -> bool:
    """Whether samples get a place by what they are, as in ``found[label].append(x)``."""
    new = bound_in(loop)
    for node in walk(loop.body):
        owner = node.value if isinstance(node, cst.Subscript) else None
        if not isinstance(owner, cst.Name) or owner.value in new or not _is_filled(run, node):
            continue
        if _has_sample(run, owner):
            continue  # what is taken out of a sample
        places = [e.slice.value for e in node.slice if isinstance(e.slice, cst.Index)]  # type: ignore[attr-defined]
        if places and all(_has_sample(run, place) for place in places):
            return True
    return False


def _is_filled(run: RunState, node: cst.CSTNode) -> bool:
    """Whether an item is assigned, added to, or changed by a method."""
    above = run.module.parents[node]
    if isinstance(above, cst.Attribute):
        return isinstance(run.module.parents[above], cst.Call) and above.attr.value in _ADDING
    return isinstance(above, (cst.AssignTarget, cst.AugAssign)) and above.target is node


def _counters(run: RunState, loop: Through, body: cst.CSTNode) -> tuple[set[str], set[str]]:
    """The names that count samples, ``n += 1``, and those that add up sizes, ``first += size``.

    Sizes are added to what numbers a sample's rows: then it numbers those of a rank's batch.
    """
    counters: set[str] = set()
    offsets: set[str] = set()
    others: set[str] = set()
    for node in walk(body) if isinstance(loop, cst.For) else ():
        if isinstance(node, cst.AugAssign) and isinstance(node.target, cst.Name):
            adds = isinstance(node.operator, cst.AddAssign) and not _has_sample(run, node.value)
            literal = isinstance(run.seen(node.value).constant(), int)
            kind = (counters if literal else offsets) if adds else others
            kind.add(node.target.value)
        else:
            others |= assigned(node) if isinstance(node, (cst.Assign, cst.AnnAssign)) else set()
    return counters - others - offsets, offsets - others - counters


def _has_sample(run: RunState, node: cst.BaseExpression) -> bool:
    """Whether this is of a sample's elements, and not of its sizes alone."""
    return any(map(_is_of_a_sample, run.seen(node).atoms))


def _is_of_a_sample(atom: object) -> bool:
    return isinstance(atom, Data) and atom.dim == NO_ROWS and isinstance(atom.form, Layout)


def _beside_others(run: RunState, through: cst.BaseExpression) -> bool:
    """Whether ``zip()`` puts samples beside what does not come of samples."""
    if not isinstance(through, cst.Call) or dotted(through.func) != "zip":
        return False
    given = (run.seen(one.value) for one in through.args if not one.star)
    return any(not any(isinstance(a, Data) for a in _held(one)) for one in given)


def _held(one: Value) -> Iterator[object]:
    for atom in deep_atoms(one):
        yield atom
        if isinstance(atom, Instance):
            yield from deep_atoms(atom.elements)


def _enter(run: RunState, body: cst.CSTNode, numbers: set[str], offsets: set[str]) -> bool:
    """Whether numbers of samples are computed with, and are no places of them alone."""
    for name in (one for one in walk(body) if isinstance(one, cst.Name)):
        if name.value in numbers and _enters(run, name, added=False):
            return True
        if name.value in offsets and _enters(run, name, added=True):
            return True
    return False


def _enters(run: RunState, number: cst.Name, *, added: bool) -> bool:
    """Whether a sample's elements, or what is done with them, go by a number.

    ``added``: it may be added to them.
    """
    parents = run.module.parents
    node: cst.CSTNode = number
    while isinstance(above := parents[node], cst.BaseExpression | cst.Arg | cst.If):
        if isinstance(above, (cst.If, cst.IfExp)):
            return above.test is node
        if isinstance(above, (cst.Comparison, cst.BooleanOperation, cst.Subscript)):
            return not isinstance(above, cst.Subscript)
        if isinstance(above, cst.BinaryOperation):
            other = above.right if above.left is node else above.left
            if _has_sample(run, other):
                return not (added and isinstance(above.operator, cst.Add))
        if isinstance(above, cst.Call) and _is_given_samples(run, above, node):
            return True
        node = above
    return False


def _is_given_samples(run: RunState, call: cst.Call, number: cst.CSTNode) -> bool:
    """Whether a function gets a sample's elements beside a number; some only fill with it."""
    method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    if method in _FILLING or number is call.func:
        return False
    return any(_has_sample(run, one.value) for one in call.args if one is not number)


def _numbers(loop: Through) -> set[str]:
    """The names that count the samples of a rank."""
    called = dotted(loop.iter.func) if isinstance(loop.iter, cst.Call) else ""
    targets = [one.value for one in names_of(loop.target) if isinstance(one, cst.Name)]
    if called == "enumerate" and isinstance(loop.target, cst.Tuple):
        return set(targets[:1])
    return set(targets) if called == "range" else set()


def _kept(body: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """What the rounds of a loop put into lists and tensors, and what they yield."""
    for node in walk(body):
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            if node.func.attr.value in ("append", "extend", "add"):
                yield from (one.value for one in node.args)
        elif isinstance(node, cst.Assign):
            if any(isinstance(one.target, cst.Subscript) for one in node.targets):
                yield node.value
        elif isinstance(node, cst.Yield) and isinstance(node.value, cst.BaseExpression):
            yield node.value
