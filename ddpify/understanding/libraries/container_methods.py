"""Methods of lists, dictionaries, sets and generators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import record
from ddpify.understanding import uses
from ddpify.understanding.arguments import Keywords, argument_pairs
from ddpify.understanding.arithmetic import single_samples, tensor_pairs
from ddpify.understanding.batching import (
    carried_values,
    collating_order,
    left_out_samples,
    more_samples,
    per_sample_lists,
    ragged_samples,
    row_numbers,
    sample_tables,
    sample_totals,
    samples_by_place,
)
from ddpify.understanding.libraries.instances import generator
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import (
    REPLICATED,
    Const,
    Data,
    Instance,
    Number,
    Tup,
    Value,
    join,
    library_value,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


_READING = frozenset("items get values keys copy index count".split())
_SETS = ("set", "frozenset")
_TAKING_OUT = frozenset("pop popleft remove".split())
_MOVING = frozenset("reverse sort insert pop remove popleft appendleft rotate".split())
_REORDERING = frozenset("clear reverse rotate".split())


@record
class _Call:
    """A call of a method of a list, a dictionary, a set or a generator."""

    run: RunState
    node: cst.BaseExpression
    held: Instance
    name: str
    args: list[Value]
    kwargs: Keywords


def of_container(  # type: ignore[no-untyped-def]
    run: RunState, node: cst.BaseExpression, atom: Instance, name: str, args, kwargs
) -> Value:
    """What a list, a dictionary, a set or a generator takes and gives."""
    call = _Call(run, node, atom, name, args, kwargs)
    _note_change(call)
    rule = _RULES.get(name, _of_operators if name.startswith("__") else _read)
    if atom.type in _SETS and name != "add":
        _read(call)  # what samples have in common with others, they have with those of all ranks
    given = None if rule is None else rule(call)
    return REPLICATED if given is None else given


def _note_change(call: _Call) -> None:
    """Note what a method changes of the order, and of whose samples are held."""
    run, node, held, name = call.run, call.node, call.held, call.name
    if name not in _READING:
        run.changes(held)
    if name in _REORDERING:
        held.each = False  # the samples of one rank, in another order, are not those of all
        collating_order.taken_apart(run, node, held)
    if name in _MOVING and any(key != "*" for key in held.attributes):
        run.put(held, "*", join(*held.attributes.values()))  # each may be at any place now
    if held.type == "list":
        _of_samples(run, node, held, name, call.args)
    if name in per_sample_lists.GROWING:
        filled = (name == "append" and per_sample_lists.is_filled_from_each(run, node, held)) or (
            name == "extend" and per_sample_lists.is_filled_at_once(run, node, held)
        )
        if held.each and not filled and not run.collating:
            _take_all(run, node, held)
        if name in ("append", "appendleft", "insert"):
            more_samples.added(run, held)
        held.each = filled
    if name == "append" and per_sample_lists.is_filled_from_all(run, node, held):
        run.of_all_ranks.add(held)
    elif name in per_sample_lists.GROWING and per_sample_lists.is_in_loop_over_all(run, node):
        run.of_some_samples.add(held)


def _take_all(run: RunState, node: cst.BaseExpression, held: Instance) -> None:
    """Ask for the rows of all ranks where a list of a rank's own gets something else."""
    rows = (d for d in held.elements.data if d.placement is Placement.ROWS and d.definition_sites)
    run.demand(node, value(*rows), uses.A_STATISTIC)


# ---------------------------------------------------------------------- rules of methods
def _appended(call: _Call) -> Value | None:
    run, node, held = call.run, call.node, call.held
    if not call.args:
        return None
    added, shown = call.args[0], argument_pairs(node, call.args, {})[0][0]
    if call.name == "add":
        sample_tables.element(run, shown, added)
    loop = per_sample_lists.filling(run, node, held) if call.name == "append" else None
    if loop is not None and run.collating:
        element = run.iterate(loop.iter, run.seen(loop.iter))
        added = collating_order.own_number(run, element, added)
    taken = ragged_samples.taken(run, node, held, added)
    if loop is not None:
        sample_totals.note_list(run, held, loop.iter)
    taken = left_out_samples.in_loop(run, node, taken)
    run.put(held, "*", run.keeps_from_batch(held, shown, taken))
    return None


def _taken_in(call: _Call) -> Value | None:
    for expression, one in argument_pairs(call.node, call.args, {}):
        # A dictionary gives what lies under its keys; of samples, a set or a counter takes each.
        if call.name == "update" and (one.data or any(map(_gives_each, one.of(Instance)))):
            call.run.demand_held(expression, one, "update()")
    _take(call.run, call.node, call.held, call.name, call.args, call.kwargs)
    return None


def _gives_each(made: Instance) -> bool:
    return made.each or made.kind == "generator"


def _items(call: _Call) -> Value:
    pair = Tup((REPLICATED, _all_held(call)))
    return generator(call.run, call.node, value(pair))


def _got(call: _Call) -> Value | None:
    if not call.args:
        return None
    key = call.args[0].constant()
    name = f"[{key!r}]"
    found = call.held.attributes.get(name) if key is not ... else None
    if found is not None:
        return join(carried_values.read(call.run, call.held, name, found), _instead(call))
    under_any = join(_all_held(call), _instead(call))
    places = call.args[0].positions
    return row_numbers.shifted(value(*places)) if places and not under_any.data else under_any


def _all_held(call: _Call) -> Value:
    """What lies under any key, perhaps since an earlier batch."""
    held = call.held
    parts = [carried_values.read(call.run, held, *one) for one in [*held.attributes.items()]]
    return join(held.elements, *parts)


def _values(call: _Call) -> Value:
    return generator(call.run, call.node, _all_held(call))


def _copied(call: _Call) -> Value:
    return value(call.held)


def _taken_out(call: _Call) -> Value:
    held = _all_held(call)
    if call.run.collating and call.held.type == "list":
        held = value(*map(single_samples.first, held.atoms))
    return join(held, _instead(call))


def _instead(call: _Call) -> Value:
    """What is given in the place of what may not be there."""
    given = (atom for one in call.args[1:] for atom in one.atoms)
    return value(*(atom for atom in given if not isinstance(atom, (Const, Number))))


def _next(call: _Call) -> Value | None:
    if call.held.type != "generator":
        return _of_operators(call) if call.name.startswith("__") else None
    return call.run.call(call.node, library_value("builtins.next"), [value(call.held)], {})


def _sent(call: _Call) -> None:
    """What a generator computes of it is not followed."""
    tensor_pairs.note_used_unseen(call.run, call.node, call.args)
    _read(call)


def _read(call: _Call) -> None:
    """What is given to any other method may be compared with what is held."""
    call.run.lengthen((call.held,))
    for expression, one in argument_pairs(call.node, call.args, call.kwargs):
        call.run.demand_held(expression, one, f"{call.name}()")


def _of_operators(call: _Call) -> Value:
    """As an operator calls it, perhaps to put something in."""
    _take(call.run, call.node, call.held, call.name, call.args, call.kwargs)
    return join(value(call.held), call.held.elements)


def _sorted(call: _Call) -> None:
    """A list is put in order by what it holds."""
    if isinstance(call.node, cst.Call) and isinstance(call.node.func, cst.Attribute):
        call.run.demand_held(call.node.func.value, value(call.held), f"{call.name}()")


_RULES: dict[str, Callable[[_Call], Value | None]] = {
    **dict.fromkeys(("append", "add", "appendleft"), _appended),
    **dict.fromkeys(("extend", "update", "insert", "setdefault"), _taken_in),
    **dict.fromkeys(("pop", "popitem", "popleft"), _taken_out),
    **dict.fromkeys(("next", "__next__"), _next),
    "copy": _copied,
    "get": _got,
    "items": _items,
    "send": _sent,
    "sort": _sorted,
    "values": _values,
}


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
            run.lengthen(one.atoms if run.is_older(atom) else ())
            one = per_sample_lists.taken_from(run, atom, expression, one)
            one = ragged_samples.extended(run, node, atom, one)
        if one.data or any(isinstance(a, Data) for a in one.atoms):
            run.put(atom, "*", one)
        for source in one.of(Instance):
            for key, held in list(source.attributes.items()):
                held = ragged_samples.extended(run, node, atom, held) if name == "extend" else held
                run.put(atom, key if name == "update" else "*", held)
    for (shown, one), key in zip(argument_pairs(node, [], kwargs), kwargs, strict=True):
        carried_values.stored(run, atom, f"[{key!r}]", shown, one)
        run.put(atom, f"[{key!r}]", one)
