"""Whether a collate function's loop over samples goes by their order, or by their places.

A rank's collate function gets some samples of the batch: one that is the first of them is not the
first of the batch. So what a sample becomes must not go by its number, by what the samples before
it have left, or by what lies beside it in a list of something else. Numbers that are indices
alone, as in ``padded[i, :n] = sequence``, tell where a rank lays a sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import earlier_rounds
from ddpify.understanding.batching import earlier_samples
from ddpify.understanding.forms import Layout
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import dotted, names_of
from ddpify.understanding.values import NO_ROWS, Data, Instance, Value, deep_atoms

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

Through = cst.For | cst.CompFor


def gone_through(run: RunState, loop: Through, element: Value, body: cst.CSTNode) -> None:
    """Note that the samples that a loop gets depend on each other, where its rounds do.

    Args:
        loop: A loop in a collate function, or the ``for`` of a comprehension.
        element: What it gets in each round.
        body: What it does in each round.
    """
    if are_samples(run, element) and _by_order(run, loop, body):
        found = (a for a in deep_atoms(element) if isinstance(a, Data) and a.dim == NO_ROWS)
        run.mixes(loop.iter, *(replace(one, dim=0, form=Layout.TENSOR) for one in found))


def taken_apart(run: RunState, node: cst.BaseExpression, listed: Instance) -> None:
    """Note that a collate function takes some samples out of a list, or changes their order."""
    if run.collating:
        found = (a for a in deep_atoms(listed.elements) if isinstance(a, Data) and a.dim == NO_ROWS)
        run.mixes(node, *(replace(one, dim=0, form=Layout.TENSOR) for one in found))


def are_samples(run: RunState, element: Value) -> bool:
    """Whether a loop of a collate function gets a sample in each round."""
    if not run.collating:
        return False
    return any(isinstance(a, Data) and a.dim == NO_ROWS for a in deep_atoms(element))


def _by_order(run: RunState, loop: Through, body: cst.CSTNode) -> bool:
    if _beside_others(run, loop.iter) or _uses_numbers(run, loop, body):
        return True
    above = run.module.parents[loop] if isinstance(loop, cst.CompFor) else loop
    if earlier_samples.go_on(run, above):
        return True
    structure = run.module.structure
    return isinstance(loop, cst.For) and any(
        earlier_rounds.goes_by(structure, loop, one) for one in _kept(body)
    )


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


def _uses_numbers(run: RunState, loop: Through, body: cst.CSTNode) -> bool:
    """Whether the number of a sample is more than the index of its place."""
    numbers = _numbers(run, loop)
    names = (one for one in walk(body) if isinstance(one, cst.Name) and one.value in numbers)
    return any(not _is_place(run, one) for one in names)


def _numbers(run: RunState, loop: Through) -> set[str]:
    """The names that count the samples of a rank."""
    called = dotted(loop.iter.func) if isinstance(loop.iter, cst.Call) else ""
    targets = [one.value for one in names_of(loop.target) if isinstance(one, cst.Name)]
    if called == "enumerate" and isinstance(loop.target, cst.Tuple):
        return set(targets[:1])
    return set(targets) if called == "range" else set()


def _is_place(run: RunState, number: cst.Name) -> bool:
    """Whether this is the first index of something, or is no value, as the name of a keyword."""
    parents = run.module.parents
    above = parents[number]
    if isinstance(above, (cst.Arg, cst.Attribute)):
        return number is not above.value
    element = parents[above] if isinstance(above, cst.Index) else None
    owner = parents[element] if isinstance(element, cst.SubscriptElement) else None
    return isinstance(owner, cst.Subscript) and owner.slice[0] is element


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
