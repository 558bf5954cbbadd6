"""Calls of Python's own functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.arguments import argument_pairs
from ddpify.understanding.batching import per_sample_lists
from ddpify.understanding.forms import Layout
from ddpify.understanding.libraries import (
    instances,
    lookup_by_name,
    own_methods,
    python_code,
    python_iterables,
    python_numbers,
    sorting,
)
from ddpify.understanding.libraries.python_iterables import dictionary
from ddpify.understanding.libraries.python_numbers import is_count, is_of_one_sample, rounded
from ddpify.understanding.values import REPLICATED, Data, Instance, Value, deep_atoms, join, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


_OF_ONE = frozenset("float int bool round str".split())
# These say nothing of what a tensor holds; all others may read it.
_SAYING_NOTHING = frozenset(
    "type isinstance issubclass hasattr callable id dir delattr object property help".split()
)


def builtin(  # type: ignore[no-untyped-def]
    run: RunState, node: cst.BaseExpression, name: str, args, kwargs
) -> Value:
    """Call one of Python's own functions."""
    if name == "dict":
        return dictionary(run, node, args, kwargs)
    own = own_methods.builtin(run, node, name, args)
    if own:
        return own
    handler = _BUILTINS.get(name)
    if name in sorting.ORDERING:
        sorting.compared(run, node, args, kwargs)
    if name in _OF_ONE and run.collating and args and is_of_one_sample(args[0]):
        return value(*args[0].atoms)
    if handler is not None:
        result = handler(run, node, args)
        return result if name in _COLLECTING else instances.passes_on(run, args, result)
    if name == "int" and len(args) == 1 and is_count(args[0]):
        return value(*map(rounded, args[0].atoms))
    if name not in _SAYING_NOTHING:
        for expression, one in argument_pairs(node, args, kwargs):
            run.demand_held(expression, one, f"{name}()")
            run.demand(expression, per_sample_lists.numbers(one), f"{name}()")
        for unpacked in _unpacked(node):
            run.demand_held(unpacked, value(*run.seen(unpacked).of(Instance)), f"{name}()")
    if name in ("max", "min"):
        return join(REPLICATED, *(_reduced_in(one) for one in args))
    return REPLICATED


def _unpacked(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What a call takes apart into arguments: ``print(*rows)`` gets as many as there are rows."""
    given = node.args if isinstance(node, cst.Call) else ()
    return [one.value for one in given if one.star == "*"]


def _reduced_in(one: Value) -> Value:
    """The tensors that reductions over the ranks gave: one may be what comes back."""
    held = (a for a in deep_atoms(one) if isinstance(a, Data) and a.reduced)
    return value(*(a for a in held if a.form is Layout.TENSOR))


_BUILTINS: dict[str, Callable[..., Value]] = {
    **python_numbers.FUNCTIONS,
    **python_iterables.FUNCTIONS,
    **python_code.FUNCTIONS,
    **dict.fromkeys(("setattr", "__setattr__"), lookup_by_name.set_attribute),
    "globals": lookup_by_name.module_globals,
    "locals": lookup_by_name.names_here,
    "vars": lookup_by_name.variables,
}
_COLLECTING = frozenset(
    {"list", "tuple", "set", "frozenset", "sorted", "reversed"}
)  # all that an iterable gives
