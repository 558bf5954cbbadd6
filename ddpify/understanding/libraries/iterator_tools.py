"""Functions of itertools, ``functools.reduce`` and ``collections.deque``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import uses
from ddpify.understanding.arguments import Keywords, argument_at
from ddpify.understanding.batching import joint_loaders, per_sample_lists
from ddpify.understanding.libraries import instances
from ddpify.understanding.libraries.python_iterables import (
    iterated,
    listed,
    rows_of_all,
)
from ddpify.understanding.shapes import bounds
from ddpify.understanding.values import REPLICATED, UNKNOWN, Instance, Tup, Value, join, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


_MOST_TOGETHER = 5


def _cycle(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    made = iterated(run, node, args)
    if any(joint_loaders.sources(held.elements) for held in made.of(Instance)):
        run.facts.batches.cycled.setdefault(node, run.site(node))
    return made


def _elements(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    return iterated(run, node, args)


def _groups(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """Some of the elements of an iterable together, in each way."""
    element = run.iterate(argument_at(node, 0), args[0]) if args else UNKNOWN
    count = args[1].constant() if len(args) > 1 else ...
    made = run.instance(node, run.module, "generator")
    known = isinstance(count, int) and 0 < count < _MOST_TOGETHER
    made.hold("*", value(Tup((element,) * count)) if known else element)  # type: ignore[operator]
    return value(made)


def _starmap(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """``map`` whose function gets the parts of each element as its arguments."""
    if len(args) != 2:
        return UNKNOWN
    made = run.instance(node, run.module, "generator")
    element = run.iterate(argument_at(node, 1), args[1])
    taken = [list(one.items) for one in element.of(Tup)] or [[element]]
    made.hold("*", join(*(run.call(node, args[0], one, {}) for one in taken)))
    made.each = all(one.each for one in args[1].of(Instance))
    return value(made)


def _of_all(handler: Callable[..., Value]) -> Callable[..., Value]:
    """What takes some samples, or each with others: those of all ranks."""

    def taking(
        run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
    ) -> Value:
        return handler(
            run, node, [rows_of_all(run, node, i, one) for i, one in enumerate(args)], kwargs
        )

    return taking


def _taken(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """``islice(names, len(x))``: of what all ranks hold, as many as all ranks have rows."""
    if not run.collating:
        bounds.count_sizes(run, [argument_at(node, i) for i in range(1, len(args))])
    return _elements(run, node, args, kwargs)


def _chained(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """One iterable after the other."""
    made = run.instance(node, run.module, "generator")
    made.hold("*", join(*(run.iterate(node, one) for one in args)))
    return value(made)


def _chained_from(
    run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords
) -> Value:
    each = run.iterate(node, args[0]) if args else UNKNOWN
    return _chained(run, node, [each], kwargs)


def _deque(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """A list of which the first elements may be gone."""
    if len(args) > 1 or "maxlen" in kwargs:
        args = [rows_of_all(run, node, i, one) for i, one in enumerate(args[:1])]
    return listed(run, node, args or [kwargs.get("iterable", UNKNOWN)])


def _reduce(run: RunState, node: cst.BaseExpression, args: list[Value], kwargs: Keywords) -> Value:
    """``functools.reduce``: the function on a result so far and an element, until nothing is new.

    What the samples of a batch make together, all ranks make of the samples of all.
    """
    if len(args) < 2:
        return UNKNOWN
    if args[1].data:
        run.demand(argument_at(node, 1), args[1], uses.A_STATISTIC)
        return REPLICATED
    each = run.iterate(node, args[1])
    per_sample_lists.count_beside_whole(run, argument_at(node, 1), each)
    result = join(each, args[2]) if len(args) > 2 else each
    for _ in range(2):
        result = join(result, run.call(node, args[0], [result, each], {}))
    return result


def _passing_on(handler: Callable[..., Value]) -> Callable[..., Value]:
    return lambda run, node, args, kwargs: instances.passes_on(
        run, args, handler(run, node, args, kwargs)
    )


_ITERTOOLS = {
    "combinations": _of_all(_groups), "permutations": _of_all(_groups),
    "combinations_with_replacement": _of_all(_groups), "cycle": _of_all(_cycle),
    "islice": _of_all(_taken), "chain": _of_all(_chained),
    "chain.from_iterable": _chained_from, "starmap": _starmap,
}  # fmt: skip
OF_ITERABLES: dict[str, Callable[..., Value]] = {
    "collections.deque": _deque,
    "functools.reduce": _passing_on(_reduce),
    **{f"itertools.{name}": _passing_on(handler) for name, handler in _ITERTOOLS.items()},
}
