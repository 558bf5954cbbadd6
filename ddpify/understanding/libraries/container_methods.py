"""Methods of lists, dictionaries, sets and generators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.arguments import argument_pairs
from ddpify.understanding.arithmetic import tensor_pairs
from ddpify.understanding.batching import (
    collating_order,
    left_out_samples,
    per_sample_lists,
    ragged_samples,
    sample_tables,
    samples_by_place,
)
from ddpify.understanding.libraries.instances import generator
from ddpify.understanding.values import (
    REPLICATED,
    Data,
    Instance,
    Tup,
    Value,
    join,
    library_value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


_READING = frozenset("items get values keys copy index count".split())
_TAKING_OUT = frozenset("pop popleft remove".split())
_REORDERING = frozenset("clear reverse rotate".split())


def of_container(  # type: ignore[no-untyped-def]
    run: RunState, node: cst.BaseExpression, atom: Instance, name: str, args, kwargs
) -> Value:
    """What a list, a dictionary, a set or a generator takes and gives."""
    if name not in _READING:
        run.changes(atom)
    if name in _REORDERING:
        atom.each = False  # the samples of one rank, in another order, are not those of all
        collating_order.taken_apart(run, node, atom)
    if atom.type == "list":
        _of_samples(run, node, atom, name, args)
    if name in per_sample_lists.GROWING:
        atom.each = (
            name == "append" and per_sample_lists.is_filled_from_each(run, node, atom)
        ) or (name == "extend" and per_sample_lists.is_filled_at_once(run, node, atom))
    if name == "append" and per_sample_lists.is_filled_from_all(run, node, atom):
        run.of_all_ranks.add(atom)
    if name in ("append", "add", "appendleft") and args:
        shown = argument_pairs(node, args, {})[0][0]
        if name == "add":
            sample_tables.element(run, shown, args[0])
        added = args[0]
        loop = per_sample_lists.filling(run, node, atom) if name == "append" else None
        if loop is not None and run.collating:
            element = run.iterate(loop.iter, run.seen(loop.iter))
            added = collating_order.own_number(run, element, added)
        taken = ragged_samples.taken(run, node, atom, added)
        taken = left_out_samples.in_loop(run, node, taken)
        run.put(atom, "*", run.keeps_from_batch(atom, shown, taken))
    elif name in ("extend", "update", "insert", "setdefault"):
        _take(run, node, atom, name, args, kwargs)
    elif name == "items":
        return generator(run, node, value(Tup((REPLICATED, atom.elements))))
    elif name == "get" and args:
        key = args[0].constant()
        return atom.attributes.get(f"[{key!r}]", atom.elements) if key is not ... else atom.elements
    elif name == "values":
        return generator(run, node, atom.elements)
    elif name in ("pop", "copy", "popitem", "popleft"):
        return value(atom) if name == "copy" else atom.elements
    elif name in ("next", "__next__") and atom.type == "generator":
        return run.call(node, library_value("builtins.next"), [value(atom)], {})
    elif name == "send":  # what a generator computes of it is not followed
        tensor_pairs.note_used_unseen(run, node, args)
        for expression, one in argument_pairs(node, args, kwargs):
            run.demand_held(expression, one, f"{name}()")
    elif name.startswith("__"):  # as an operator calls it, perhaps to put something in
        _take(run, node, atom, name, args, kwargs)
        return join(value(atom), atom.elements)
    elif name == "sort" and isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        run.demand_held(node.func.value, value(atom), f"{name}()")
    return REPLICATED


def _of_samples(
    run: RunState, node: cst.BaseExpression, listed: Instance, name: str, args: Sequence[Value]
) -> None:
    """Note that a list takes a sample by its place, or that one is taken out of it."""
    if name in _TAKING_OUT:
        collating_order.taken_apart(run, node, listed)
    for item in args if name in per_sample_lists.GROWING else ():
        samples_by_place.put_into_list(run, node, item)


def _take(  # type: ignore[no-untyped-def]
    run: RunState, node: cst.BaseExpression, atom: Instance, name: str, args, kwargs
) -> None:
    """A container takes the elements of others, and its own by their keys."""
    for expression, one in argument_pairs(node, args, kwargs):
        one = run.keeps_from_batch(atom, expression, one)
        if name == "extend":
            one = per_sample_lists.taken_from(run, atom, expression, one)
            one = ragged_samples.extended(run, node, atom, one)
        if one.data or any(isinstance(a, Data) for a in one.atoms):
            run.put(atom, "*", one)
        for source in one.of(Instance):
            for key, held in list(source.attributes.items()):
                held = ragged_samples.extended(run, node, atom, held) if name == "extend" else held
                run.put(atom, key if name == "update" else "*", held)
    for key, one in kwargs.items():
        run.put(atom, f"[{key!r}]", one)
