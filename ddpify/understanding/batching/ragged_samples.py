"""What each sample brings several of: where a collate function puts those of all in one list.

``[word for sample in samples for word in sample]`` has any number of rows for a sample, and a rank
has any number of them. A list that is made anew for each sample holds one sample's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding.batching import collating, collating_order, per_sample_lists
from ddpify.understanding.definite_assignment import target_names
from ddpify.understanding.forms import Layout
from ddpify.understanding.values import NO_ROWS, Atom, Data, Instance, Tup, Value, join, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def one_of(atom: Data) -> Data:
    """One of the things that a sample is, or brings."""
    return replace(collating.sample(atom), form=Layout.SEVERAL)


def in_comprehension(run: RunState, node: cst.BaseComp, item: Value) -> Value:
    """What the list of a comprehension holds: of all samples where it goes through them all."""
    if not run.collating:
        return item
    if not _goes_through_all(run, node.for_in.iter):
        return _each(item, _of_one_sample)
    inner = node.for_in.inner_for_in
    if inner is None or not _gets_samples(run, node.for_in.iter):
        return item
    if _gets_samples(run, inner.iter) and _goes_through_all(run, inner.iter):
        _mix(run, node, item)
    return _each(item, _one_of_many)


def taken(run: RunState, node: cst.BaseExpression, held: Instance, new: Value) -> Value:
    """What a list takes in a loop: of all samples if it was there before a loop through them."""
    if not run.collating:
        return new
    if _is_named(run, node) and any(
        _goes_through_all(run, loop.node.iter) and not _is_made_in(run, loop.node, held)
        for loop in run.frame.loops
        if isinstance(loop.node, cst.For)
    ):
        return _each(new, _one_of_many) if _adds_again(run, node, new) else new
    return _each(new, _of_one_sample)


def extended(run: RunState, node: cst.BaseExpression, held: Instance, new: Value) -> Value:
    """What a list takes at once: all that a sample brings."""
    return taken(run, node, held, _each(new, _one_of_many)) if run.collating else new


def joined(run: RunState, node: cst.BaseExpression, each: Value) -> Value | None:
    """``sum(lists, [])`` of the lists that samples are: one with all that they bring."""
    alone = [a for a in each.data if a.dim == NO_ROWS]
    if not run.collating or not alone:
        return None
    made = run.instance(node, run.module, "list")
    made.hold("*", value(one_of(alone[0])))
    return value(made)


def _adds_again(run: RunState, node: cst.BaseExpression, new: Value) -> bool:
    """Whether a list may get several items in one round of a loop through the samples."""
    structure = run.module.structure
    loops = [one for one in structure.loops(node) if isinstance(one, cst.For)]
    through = [one for one in loops if _gets_samples(run, one.iter)]
    if not through:
        return False
    if len([one for one in through if _goes_through_all(run, one.iter)]) > 1:
        _mix(run, node, new)
    others = per_sample_lists.grown_alike(structure, node, through[-1].body)
    return loops[0] is not through[-1] or not all(
        structure.are_exclusive(node, one) for one in others if one is not node
    )


def _mix(run: RunState, node: cst.CSTNode, pairs: Value) -> None:
    """Note that something is made of each sample with each of the others."""
    for data in pairs.data:
        run.mixes_batches(node, data.loaders)


def _gets_samples(run: RunState, through: cst.BaseExpression) -> bool:
    """Whether each round of a loop gets a sample, or its place among them."""
    element = run.iterate(through, run.seen(through))
    return per_sample_lists.are_rows(element) or collating_order.are_samples(run, element)


def _is_made_in(run: RunState, loop: cst.For, held: Instance) -> bool:
    """Whether a list is made in a loop, and is none that a ``defaultdict`` makes for a new key."""
    by_key = isinstance(held.site, cst.Subscript)
    return not by_key and held.module is run.module and run.module.holds(loop, held.site)


def _is_named(run: RunState, node: cst.BaseExpression) -> bool:
    """Whether a list is called by a name, which is not one list after the other in a loop."""
    called = node.func if isinstance(node, cst.Call) else node
    owner = called.value if isinstance(called, cst.Attribute) else called
    while isinstance(owner, cst.Subscript):  # by_label[label].append(sample)
        owner = owner.value
    loops = [loop.node for loop in run.frame.loops if isinstance(loop.node, cst.For)]
    bound = {name for loop in loops for name in target_names(loop.target)}
    return isinstance(owner, cst.Name) and owner.value not in bound


def _goes_through_all(run: RunState, iterable: cst.BaseExpression) -> bool:
    """Whether something has each sample, or what is left of each, and is not one sample's own."""
    held = run.seen(iterable)
    return bool(held) and not collating_order.are_of_one(held)


def _of_one_sample(atom: Data) -> Data:
    return replace(atom, form=Layout.TENSOR) if atom.form is Layout.SEVERAL else atom


def _one_of_many(atom: Data) -> Data:
    return one_of(atom) if atom.dim == NO_ROWS else atom


def _each(one: Value, change: Callable[[Data], Data]) -> Value:
    """A value with what it holds of samples changed, also in its tuples."""
    if not any(isinstance(atom, (Data, Tup)) for atom in one.atoms):
        return one
    return join(*(value(_changed(atom, change)) for atom in one.atoms))


def _changed(atom: Atom, change: Callable[[Data], Data]) -> Atom:
    if isinstance(atom, Data):
        return change(atom)
    if isinstance(atom, Tup):
        return Tup(tuple(_each(item, change) for item in atom.items))
    return atom
