"""Samples that a collate function leaves out: a rank's batch has any number of rows then.

Those that are None, which a data set gives where it cannot read a file, count as well; but a test
for None leaves out nothing where no data set gives it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.batching import collating_order, sample_numbers
from ddpify.understanding.forms import Layout
from ddpify.understanding.structure import walk, walk_here
from ddpify.understanding.values import UNKNOWN, Class, Data, Function, Instance, Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def in_comprehension(run: RunState, node: cst.BaseComp, item: Value) -> Value:
    """What a comprehension keeps: of some samples, where it tests them."""
    if not run.collating or not _are_all(run, node.for_in.iter):
        return item
    if isinstance(node, cst.DictComp):  # a key that comes again counts once
        collating_order.depend(run, node.for_in.iter, item)
        return item
    return _of_some(run, item, [one.test for one in node.for_in.ifs])


def in_loop(run: RunState, node: cst.BaseExpression, new: Value) -> Value:
    """What a list takes in a loop through the samples: of some, where that is under a condition."""
    loops = [loop.node for loop in run.frame.loops if isinstance(loop.node, cst.For)]
    through = [loop for loop in loops if run.collating and _are_all(run, loop.iter)]
    if not through:
        return new
    guards = run.module.structure.guards(node)
    within = [one for one in guards if run.module.holds(through[-1].body, one.statement)]
    return _of_some(run, new, [one.test for one in within])


def in_filter(run: RunState, node: cst.BaseExpression, element: Value) -> Value:
    """What ``filter(kept, samples)`` leaves."""
    if not run.collating or not isinstance(node, cst.Call):
        return element
    kept = node.args[0].value
    return _of_some(run, element, [kept.body if isinstance(kept, cst.Lambda) else kept])


def _are_all(run: RunState, iterable: cst.BaseExpression) -> bool:
    """Whether this has each sample, and is not what one of them holds."""
    held = [a for a in run.seen(iterable).atoms if isinstance(a, (Data, Instance))]
    return bool(held) and all(
        a.form is Layout.SAMPLES if isinstance(a, Data) else True for a in held
    )


def _of_some(run: RunState, item: Value, tests: Iterable[cst.BaseExpression]) -> Value:
    asks = [test for test in tests if not _asks_for_none(test) or _gives_none(item)]
    if asks:
        collating_order.depend(run, asks[0], item)
    return item


def _asks_for_none(test: cst.BaseExpression) -> bool:
    """``sample is not None``, its opposite, or the first argument of ``filter(None, samples)``."""
    if isinstance(test, cst.Name):
        return test.value == "None"
    asked = test.comparisons[0] if isinstance(test, cst.Comparison) else None
    none = asked is not None and isinstance(asked.comparator, cst.Name)
    return none and asked.comparator.value == "None"  # type: ignore[union-attr]


def _gives_none(item: Value) -> bool:
    """Whether a data set of the project may give None, by what it returns."""
    loaders = {one for data in sample_numbers.samples_in(item) for one in data.loaders}
    return any(_returns_none(one) for loader in loaders for one in _datasets(loader))


def _datasets(owner: Instance) -> Iterator[Class]:
    """The classes of the project that give the samples: also those within ``Subset(data, ..)``."""
    for atom in owner.arguments.get("dataset", UNKNOWN).of(Instance):
        if isinstance(atom, Instance) and isinstance(atom.type, Class):
            yield atom.type
        elif isinstance(atom, Instance):
            yield from _datasets(atom)


def _returns_none(dataset: Class) -> bool:
    found = dataset.find("__getitem__") or UNKNOWN
    returned = (
        node.value
        for function in found.of(Function)
        for node in walk_here(function.node.body)
        if isinstance(node, cst.Return)
    )
    return any(one is None or _names_none(one) for one in returned)


def _names_none(returned: cst.BaseExpression) -> bool:
    return any(isinstance(one, cst.Name) and one.value == "None" for one in walk(returned))
