"""``f(*x)`` and ``f(**x)``: which arguments a call gets out of something that it is given."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import definition_sites, uses
from ddpify.understanding.arithmetic import indexed_rows, single_samples
from ddpify.understanding.batching import named_parts
from ddpify.understanding.forms import NumberKind
from ddpify.understanding.language import attributes, elements
from ddpify.understanding.values import (
    UNKNOWN,
    Atom,
    Bound,
    Class,
    Data,
    Function,
    Instance,
    Tup,
    Value,
    join,
    value,
)

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def spread(
    run: RunState, node: cst.BaseExpression, result: Value, open_: list[cst.Param]
) -> list[Value]:
    """The arguments, of which there are as many as the function has parameters left.

    One that has a default may as well not be given.
    """
    tuples = [atom.items for atom in result.atoms if isinstance(atom, Tup)]
    if tuples:
        return [join(*(one for one in each if one)) for each in zip_longest(*tuples)]
    for atom in result.atoms:
        if isinstance(atom, Data) and atom.form is NumberKind.SHAPE:
            return [value(atom)]  # the sizes, as one argument that stands for them all
        if isinstance(atom, Instance) and atom.type == "list":
            known = [atom.attributes[k] for k in sorted(atom.attributes) if k != "*"]
            if known and "*" not in atom.attributes:
                return known
    held = [atom for atom in result.atoms if isinstance(atom, Data)]
    if not open_ or not held or not all(named_parts.is_batch(atom) for atom in held):
        each = elements.iterate(run, node, result)
        return [value(*map(single_samples.first, each.atoms)) if run.collating else each]
    count = len(open_)
    parts = [elements.unpacked(run, result, position, count) for position in range(count)]
    pairs = zip(parts, open_, strict=True)
    return [p if o.default is None else join(p, run.default(o.default)) for p, o in pairs]


def of_all_samples(run: RunState, node: cst.BaseExpression, result: Value) -> Value:
    """What is spread over a function's parameters: a batch's rows are told apart by them."""
    rows = [data for data in result.data if indexed_rows.is_plain_batch(data)]
    if run.collating or not rows:
        return result
    run.demand(node, value(*rows), uses.A_STATISTIC)
    return definition_sites.reduced(result)


def spread_keywords(
    run: RunState, result: Value, kwargs: dict[str, Value], open_: list[cst.Param]
) -> None:
    """Add what a dictionary gives by name to the arguments.

    A dictionary of a batch gives each parameter that is left: its names are those of its parts.
    One that has a default may as well not be given; a flag is none of the tensors of a batch.
    """
    for atom in result.of(Instance):
        for key, held in atom.attributes.items():
            if key.startswith("['"):
                kwargs.setdefault(key[2:-2], held)
    parts = named_parts.parts_by_name(result)
    for parameter in open_ if parts else ():
        default = UNKNOWN if parameter.default is None else run.default(parameter.default)
        if parameter.name.value not in kwargs and not isinstance(default.constant(), bool):
            kwargs[parameter.name.value] = join(parts, default)
    kwargs.setdefault("**", result)


def may_give_more(kwargs: dict[str, Value]) -> bool:
    """Whether ``**x`` may give what is not seen, as options from a file do.

    A dictionary whose keys are all known gives these alone, and one of a batch gives its parts.
    """
    spread_of = kwargs.get("**")
    if spread_of is None or named_parts.parts_by_name(spread_of):
        return False
    return not spread_of.atoms or not all(map(_has_known_keys, spread_of.atoms))


def _has_known_keys(atom: Atom) -> bool:
    known = isinstance(atom, Instance) and atom.type == "dict"
    return known and "*" not in atom.attributes  # type: ignore[attr-defined]


def open_parameters(
    callee: Value, node: cst.Call, given: int, *, by_name: bool = False
) -> list[cst.Param]:
    """The parameters of what is called that are left after ``given`` positional arguments.

    ``by_name`` adds those that are given by name alone.
    """
    named = {a.keyword.value for a in node.args if a.keyword is not None}
    for atom in callee.atoms:
        function, own = _called(atom)
        if function is not None:
            parameters = function.node.params
            first = given + own + len(function.given)
            places = [*parameters.posonly_params, *parameters.params][first:]
            places += parameters.kwonly_params if by_name else ()
            named |= function.given_by_name.keys()
            return [place for place in places if place.name.value not in named]
    return []


def _called(atom: object) -> tuple[Function | None, bool]:
    """The function that runs, and whether its first parameter is the object itself."""
    if isinstance(atom, Function):
        return atom, False
    if isinstance(atom, Bound):
        return atom.function, not attributes.is_static(atom.function)
    found = None
    if isinstance(atom, Class):
        found = atom.find("__init__")
    elif isinstance(atom, Instance) and isinstance(atom.type, Class):
        found = atom.type.find("__call__") or atom.type.find("forward")
    functions = found.of(Function) if found is not None else []
    return next(iter(functions), None), True
