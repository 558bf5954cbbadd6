"""Python's own functions on iterables: ``zip``, ``sorted``, ``list``, ``next`` and the like."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.records import replace
from ddpify.understanding import uses
from ddpify.understanding.arguments import Keywords, argument_at, argument_pairs, local_data
from ddpify.understanding.arithmetic import across_samples, single_samples, tensor_pairs
from ddpify.understanding.batching import (
    collating,
    collating_order,
    counting_functions,
    current_batch,
    earlier_samples,
    handmade_batches,
    joint_loaders,
    left_out_samples,
    named_parts,
    per_sample_lists,
)
from ddpify.understanding.definition_sites import reduced
from ddpify.understanding.forms import Layout, NumberKind
from ddpify.understanding.libraries import full_data_batches, instances
from ddpify.understanding.libraries.python_numbers import position
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import (
    NO_ROWS,
    REPLICATED,
    UNKNOWN,
    Atom,
    Data,
    Instance,
    QualifiedName,
    Tup,
    Value,
    deep_atoms,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def _set(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``set(values)``: of rows, those of the whole batch have others in common."""
    rows = [d for one in args for d in one.data if d.placement is Placement.SHARD]
    if run.frames_forward():
        plain = [d for d in rows if d.form is Layout.TENSOR and d.dim == 0 and not d.opaque]
        for data in plain:
            across_samples.of_all_rows(run, argument_at(node, 0), data)
        return REPLICATED if plain else _same_elements(run, node, args)
    if not rows:
        return _same_elements(run, node, args)
    names = frozenset({argument_at(node, 0)})
    return value(*(replace(d.placed(Placement.COUPLED), names=names) for d in rows))


def _enumerate(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    made = run.instance(node, run.module, "generator")
    element = run.iterate(argument_at(node, 0), args[0]) if args else UNKNOWN
    rows = [a for a in deep_atoms(element) if isinstance(a, Data)]
    collating.note_numbers(run, rows)
    picked = [d for d in rows if d.placement is Placement.ROWS and d.definition_sites]
    _take_alike(run, node, made, args[:1])
    made.hold("*", value(Tup((position(picked), element))))
    return value(made)


def _zip(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    made = run.instance(node, run.module, "generator")
    if run.collating and len(args) == 1 and isinstance(node, cst.Call) and node.args[0].star:
        whole = [a for a in args[0].atoms if isinstance(a, Data) and a.dim == NO_ROWS]
        if whole:  # zip(*samples): for each part of a sample, that of all samples
            many = whole[0].form is Layout.SEVERAL
            known = whole[0].form is Layout.SAMPLE
            parts = list(collating.parts_of(whole[0])) if known else []
            for position, part in enumerate(parts):
                made.hold(f"[{position}]", value(part))
            if parts:
                return value(made)
            all_ = collating.stacked(whole[0], 0) if many else collating.samples_of(whole[0])
            made.hold("*", value(all_))
            return value(made)
    if isinstance(node, cst.Call) and any(one.star for one in node.args):
        for one, held in zip(node.args, args, strict=False):  # zip(*pairs)
            run.demand_held(one.value, held, uses.POSITIONS)
    else:
        _take_alike(run, node, made, args)
    each = [run.iterate(argument_at(node, i), a) for i, a in enumerate(args)]
    _number_rows(run, [argument_at(node, i) for i in range(len(args))], args, each)
    collating_order.put_beside(run, node, args, each)
    if joint_loaders.are_one(each):
        each = [current_batch.perhaps_earlier(run, one) for one in each]
    together = value(Tup(tuple(each)))
    if _are_spread(node, args) and joint_loaders.sources(together):
        together = _in_turn(run, node, join(*each))
    made.hold("*", together)
    return value(made)


def _number_rows(
    run: RunState,
    shown: Sequence[cst.BaseExpression],
    args: Sequence[Value],
    each: Sequence[Value],
) -> None:
    """Beside items that all ranks hold, a row meets the one with its number among all rows."""
    lists = (made for held in args for made in held.of(Instance))
    if not any(made in run.of_all_ranks for made in lists) and not any(
        map(_are_of_all, args, each)
    ):
        return
    for at, held, one in zip(shown, args, each, strict=True):
        if run.collating and collating_order.are_samples(run, one):
            run.mixes_batches(at, (loader for data in one.of(Data) for loader in data.loaders))
        elif per_sample_lists.are_rows(one) and not one.positions:
            run.demand_held(at, value(*held.data) or held, uses.A_STATISTIC)
        else:
            run.lengthen(held.atoms)


def _are_of_all(held: Value, element: Value) -> bool:
    """Whether an iterable gives nothing of a batch, and no item for each of a rank's rows."""
    of_each = any(one.each for one in held.of(Instance))
    return not of_each and not any(isinstance(a, Data) for a in deep_atoms(element))


def _in_turn(run: RunState, node: cst.BaseExpression, batch: Value) -> Value:
    """As many batches as there are loaders, which nothing tells."""
    batches = run.instance(node, run.module, "list")
    run.put(batches, "*", current_batch.perhaps_earlier(run, batch))
    return value(batches)


def _are_spread(node: cst.BaseExpression, args: list[Value]) -> bool:
    """Whether an argument stands for any number of them, as in ``zip(*loaders)``."""
    given = node.args if isinstance(node, cst.Call) else ()
    return len(given) == len(args) and any(one.star for one in given)


def _take_alike(
    run: RunState, node: cst.BaseExpression, made: Instance, args: Sequence[Value]
) -> None:
    """Ask for the rows of all ranks where others go through those of all beside a rank's own."""
    shown = [(argument_at(node, i), per_sample_lists.rows(a)) for i, a in enumerate(args)]
    held = tensor_pairs.held_tensors(shown)
    if not run.collating:
        tensor_pairs.beside_replicated(run, held)
    if any(data is not None and data.form is Layout.GATHERED for _, data in held):
        run.of_all_ranks.add(made)
    if any(data.placement is Placement.ROWS for one in args for data in one.data):
        run.of_some_samples.add(made)


def _same_elements(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    shapes = [a for one in args[:1] for a in one.data if a.form is NumberKind.SHAPE]
    if shapes:
        return value(
            *(replace(a, definition_sites=frozenset({argument_at(node, 0)})) for a in shapes)
        )
    made = run.instance(node, run.module, "list")
    for one in args[:1]:
        for source in one.of(Instance):
            if source.type == "list":
                for key, held in list(source.attributes.items()):
                    run.put(made, key, held)
        rows = any(isinstance(a, Data) and a.form is Layout.TENSOR for a in one.atoms)
        run.put(made, "*", run.collected(argument_at(node, 0) if rows else node, one))
    return value(made)


def _sorted(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``sorted(values)`` puts the samples of all ranks in order."""
    for shown, one in argument_pairs(node, args[:1], {}):
        run.demand_held(shown, one, "sorted()")
    return _same_elements(run, node, args)


def _reversed(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``reversed(samples)`` of a rank's own has others at each place than that of all."""
    if run.collating:
        atoms = (atom for one in args[:1] for atom in one.atoms)  # or those of one sample alone
        many = (a for a in atoms if not isinstance(a, Data) or a.dim != NO_ROWS)
        held = local_data(value(*many))
        run.mixes(node, *(replace(data, form=Layout.TENSOR, dim=0) for data in held))
    result = _same_elements(run, node, args)
    for made in result.of(Instance):
        for key, one in list(made.attributes.items()):
            made.hold(key, collating_order.out_of_order(run, node, one))
    return result


def listed(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``list(values)`` has an item for each row where what it is made of has one."""
    if _is_only_counted(run, node) and any(instances.loaders_of(run, one) for one in args[:1]):
        run.iterate(argument_at(node, 0), args[0])
        return REPLICATED
    result = _same_elements(run, node, args)
    for made in result.of(Instance):
        filled_from(run, made, argument_at(node, 0), join(*args[:1]))
    return result


def filled_from(run: RunState, made: Instance, shown: cst.BaseExpression, source: Value) -> None:
    """Note whether a list that holds what an iterable gives has an item for each row."""
    sources = [atom for atom in source.atoms if isinstance(atom, (Instance, Data))]
    made.each = bool(sources) and all(map(_has_each_row, sources))
    if per_sample_lists.goes_through_all(run, shown):
        run.of_all_ranks.add(made)


def _is_only_counted(run: RunState, node: cst.BaseExpression) -> bool:
    """Whether a list of batches is made for their number alone, as in ``len(list(loader))``."""
    argument = run.module.parents.get(node)
    call = run.module.parents.get(argument) if isinstance(argument, cst.Arg) else None
    counting = QualifiedName("builtins.len")
    return isinstance(call, cst.Call) and list(run.seen(call.func).atoms) == [counting]


def _has_each_row(source: Atom) -> bool:
    """Whether what is gone through has an item for each of a rank's rows."""
    if isinstance(source, Data):
        return source.placement is Placement.SHARD and source.form is Layout.TENSOR
    return isinstance(source, Instance) and source.each


def dictionary(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    """A new dictionary: of another one, of pairs, and of named values."""
    made = run.instance(node, run.module, "dict")
    for shown, one in argument_pairs(node, args[:1], {}):
        if any(a.type == "generator" for a in one.of(Instance)):
            run.demand_held(shown, one, "dict()")  # a key that comes again counts once
    for one in args[:1]:
        others = [a for a in one.of(Instance) if a.type == "dict"]
        for other in others:
            for key, held in list(other.attributes.items()):
                run.put(made, key, held)
        for pair in _pairs(run, node, one) if not others else ():
            name = pair.items[0].constant() if pair.items else ...
            run.put(made, "*" if name is ... else f"[{name!r}]", join(*pair.items[1:]))
    for key, held in kwargs.items():
        if key == "**":
            run.put(made, "*", named_parts.any_part(held))
        else:
            run.put(made, f"[{key!r}]", held)
    return value(made)


def _pairs(run: RunState, node: cst.BaseExpression, one: Value) -> Iterator[Tup]:
    """The pairs that a dictionary is made of, each by itself where they are written out."""
    for atom in one.atoms:
        told = isinstance(atom, Instance) and atom.type == "list" and "*" not in atom.attributes
        parts = [*atom.attributes.values()] if told else atom.items if type(atom) is Tup else ()  # type: ignore[attr-defined]
        for part in parts or [run.collected(node, value(atom))]:
            yield from part.of(Tup)


def iterated(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``iter(x)``: its elements, each once."""
    made = run.instance(node, run.module, "generator")
    if args and full_data_batches.is_taken(run, node, args[0]):
        made.hold("*", handmade_batches.yielded(run))
        return value(made)
    # What is taken of it by ``next()`` is a sample by its place among all.
    rows = rows_of_all(run, node, 0, args[0]) if args else UNKNOWN
    made.hold("*", run.iterate(node, rows))
    return value(made)


def _next(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    earlier_samples.advanced(run, node)
    element = run.iterate(node, args[0]) if args else UNKNOWN
    loop = run.frame.loops[-1] if run.frame.loops else None
    whole = instances.replicated_loaders(run, args[0]) if args else frozenset()
    if whole and loop is not None and not loop.taken:
        loop.takes_replicated = True
    current_batch.took_replicated(run, whole)
    if any(isinstance(a, Data) for a in deep_atoms(element)):
        shown = node.args[0].value if isinstance(node, cst.Call) and node.args else None
        run.takes_batch(shown.value if isinstance(shown, cst.Name) else "")
        joint_loaders.taken_at_once(run, node, element)
        joint_loaders.taken_besides(run, node, element)
        current_batch.asked(run, joint_loaders.last(run, element), element)
    if run.collating:
        element = value(*map(single_samples.first, element.atoms))
    if len(args) < 2:
        return element
    run.demand(argument_at(node, 1), args[1], uses.A_STATISTIC)
    return join(element, reduced(args[1]))


def _map(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    one = args[1] if len(args) == 2 else UNKNOWN
    for tup in one.of(Tup):
        parts = tuple(run.call(node, args[0], [item], {}) for item in tup.items)
        return value(Tup(parts))
    made = run.instance(node, run.module, "generator")
    each = [run.iterate(node, a) for a in args[1:]]
    _number_rows(run, [argument_at(node, i + 1) for i in range(len(each))], args[1:], each)
    rows = bool(each) and all(per_sample_lists.are_rows(one) for one in each)
    rows = rows or any(map(per_sample_lists.are_of_each, args[1:]))
    made.each = rows
    _take_alike(run, node, made, [UNKNOWN, *args[1:]])
    begun = len(run.batches_so_far)
    with earlier_samples.in_turn(run, node, samples=rows):
        made.hold("*", run.call(node, args[0], each, {}) if args else UNKNOWN)
    if len(run.batches_so_far) > begun:  # each round takes one, as map(next, iterators) does
        made.hold("*", current_batch.perhaps_earlier(run, made.elements))
    goes_on = earlier_samples.go_on(run, node)
    made.each = made.each and not goes_on
    if rows and not run.collating and (goes_on or counting_functions.counts(run, args[0].atoms)):
        for place, one in enumerate(args[1:], 1):
            rows_of_all(run, node, place, one)
    return value(made)


def _filter(run: RunState, node: cst.BaseExpression, args: list[Value]) -> Value:
    """``filter(kept, values)``: the function is asked about each of the values."""
    if len(args) != 2:
        return UNKNOWN
    made = run.instance(node, run.module, "list")
    element = run.iterate(argument_at(node, 1), rows_of_all(run, node, 1, args[1]))
    run.call(node, args[0], [element], {})
    run.put(made, "*", left_out_samples.in_filter(run, node, element))
    return value(made)


def rows_of_all(run: RunState, node: cst.BaseExpression, place: int, held: Value) -> Value:
    """An argument with its rows those of all ranks."""
    rows = [d for d in held.data if d.placement is Placement.SHARD and d.form is Layout.TENSOR]
    if rows and not run.collating:
        run.demand(argument_at(node, place), value(*rows), uses.A_STATISTIC)
        held = reduced(held)
    for made in held.of(Instance):
        if made.each:
            run.demand_held(argument_at(node, place), value(made), uses.POSITIONS)
    return held


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "enumerate": _enumerate,
    "zip": _zip,
    "list": listed,
    "tuple": listed,
    "sorted": _sorted,
    "reversed": _reversed,
    "iter": iterated,
    "next": _next,
    "map": _map,
    "filter": _filter,
    "set": _set,
    "frozenset": _set,
}
