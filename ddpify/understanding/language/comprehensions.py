"""Comprehensions: what they go through, and what they keep of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import definition_sites
from ddpify.understanding.arguments import local_data
from ddpify.understanding.batching import (
    collating_order,
    current_batch,
    earlier_samples,
    joint_loaders,
    left_out_samples,
    per_sample_lists,
    ragged_samples,
    repeated_changes,
    sample_totals,
)
from ddpify.understanding.forms import Layout
from ddpify.understanding.language import assignments, branches, elements
from ddpify.understanding.libraries import instances, random_numbers
from ddpify.understanding.values import (
    UNKNOWN,
    Data,
    Instance,
    Tup,
    Value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

Comprehension = cst.BaseSimpleComp | cst.DictComp


def comprehension(run: RunState, node: Comprehension) -> Value:
    """What a comprehension makes: a list or a dictionary, of what it computes in each round."""
    if isinstance(node, (cst.ListComp, cst.GeneratorExp, cst.DictComp)):
        parts = _of_a_tuple(run, node)
        if parts is not None:
            return parts
    names = run.frame.scope.names
    before = dict(names)
    first = _bind(run, node.for_in)
    samples = per_sample_lists.are_rows(first) or collating_order.are_samples(run, first)
    samples = samples or per_sample_lists.goes_through_each(run, node.for_in.iter)
    with earlier_samples.in_turn(run, node, samples=samples):
        item = _item(run, node)
    if not isinstance(node, cst.DictComp):
        repeated_changes.check_comprehension(run, node, first)
    for shown in _made_in_round(node):
        collating_order.gone_through(run, node.for_in, first, shown)
    if isinstance(node, cst.DictComp) and not any(local_data(item)):
        per_sample_lists.ask_for_all(run, node.for_in.iter, first)  # their number is what it holds
    each = per_sample_lists.is_of_each(run, node, first, item)
    names.clear()
    names.update(before)
    made = run.instance(node, run.module, "dict" if isinstance(node, cst.DictComp) else "list")
    made.each = each
    if item and not node.for_in.ifs and node.for_in.inner_for_in is None:
        item = collating_order.own_number(run, first, item)
    if item:
        item = ragged_samples.in_comprehension(run, node, item)
        run.put(made, "*", left_out_samples.in_comprehension(run, node, item))
    sample_totals.note_list(run, made, node.for_in.iter)
    if per_sample_lists.goes_through_all(run, node.for_in.iter):
        run.of_all_ranks.add(made)
    elif any(a.form is Layout.GATHERED for a in run.seen(node.for_in.iter).of(Data)):
        run.of_some_samples.add(made)
    return value(made)


def _bind(run: RunState, outermost: cst.CompFor) -> Value:
    """Bind what each ``for`` gets; that of the outermost."""
    first = UNKNOWN
    for_in: cst.CompFor | None = outermost
    while for_in is not None:
        element = elements.iterate(run, for_in.iter, run.eval(for_in.iter))
        first = element if for_in is outermost else first
        assignments.assign(run, for_in.target, element)
        for test in for_in.ifs:
            branches.condition(run, test.test)
        for_in = for_in.inner_for_in
    return first


def _made_in_round(node: Comprehension) -> list[cst.BaseExpression]:
    return [node.key, node.value] if isinstance(node, cst.DictComp) else [node.elt]


def _item(run: RunState, node: Comprehension) -> Value:
    """What is computed in each round, while the batch of that round is current."""
    iterable = run.seen(node.for_in.iter)
    replicated = bool(instances.replicated_loaders(run, iterable))
    through = elements.goes_through_batches(run, iterable)
    element = elements.iterate(run, node.for_in.iter, iterable) if through else UNKNOWN
    current_batch.taken(run, joint_loaders.last(run, element))
    begun = len(run.batches_so_far)
    with (
        run.taking_rows(node.for_in.iter, random_numbers.rows_of(run, node.for_in.iter)),
        run.through_replicated(replicated),
    ):
        if isinstance(node, cst.DictComp):
            run.eval(node.key)
            item = definition_sites.kept(run.eval(node.value), node.value)
        else:
            item = run.eval(node.elt)
    if joint_loaders.sources(element) or current_batch.are_in_turn(iterable):
        item = elements.kept_of_batches(run, _made_in_round(node)[-1], item)
    if len(run.batches_so_far) > begun:  # each round takes one, as of [next(it) for it in its]
        item = current_batch.perhaps_earlier(run, item)
    current_batch.comprehension_ended(run, joint_loaders.sources(element))
    return item


def _of_a_tuple(run: RunState, node: Comprehension) -> Value | None:
    """``[x.to(device) for x in batch]`` of a tuple: what each of its elements becomes."""
    plain = not node.for_in.ifs and node.for_in.inner_for_in is None
    items = _items(run, run.eval(node.for_in.iter)) if plain else None
    if items is None:
        return None
    names = run.frame.scope.names
    before = dict(names)
    made = run.instance(node, run.module, "dict" if isinstance(node, cst.DictComp) else "list")
    for number, item in enumerate(items):
        assignments.assign(run, node.for_in.target, item)
        run.items_in_turn.append(number)
        _put_item(run, node, made, number)
        run.items_in_turn.pop()
    names.clear()
    names.update(before)
    return value(made)


def _put_item(run: RunState, node: Comprehension, made: Instance, number: int) -> None:
    """Let a list or a dictionary hold what one round of a comprehension gives."""
    if not isinstance(node, cst.DictComp):
        run.put(made, f"[{number}]", run.eval(node.elt))
        return
    key = run.eval(node.key).constant()
    item = definition_sites.kept(run.eval(node.value), node.value)
    run.put(made, "*" if key is ... else f"[{key!r}]", item)


def _items(run: RunState, taken: Value) -> Sequence[Value] | None:
    """The elements of a tuple, or of a list that is written out with rows of the batch in it."""
    if len(taken.atoms) != 1:
        return None
    (atom,) = taken.atoms
    if isinstance(atom, Tup):
        return atom.items
    if not isinstance(atom, Instance):
        return None
    if run.collating and atom.type == "generator" and "*" not in atom.attributes:
        return list(atom.attributes.values()) or None  # zip(*samples): of each part, all samples'
    if not isinstance(atom.site, cst.List) or atom.attribute("*") is not None:
        return None
    if not any(local_data(taken)):
        return None
    held = [atom.attribute(f"[{number}]") for number in range(len(atom.site.elements))]
    return [one for one in held if one is not None] if None not in held else None
