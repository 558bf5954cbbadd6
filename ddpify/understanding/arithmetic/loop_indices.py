"""Indices that a loop or a comprehension around them gives, one in each round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.arguments import argument_of
from ddpify.understanding.forms import SEVERAL_TENSORS
from ddpify.understanding.syntax import names_of
from ddpify.understanding.values import Atom, Data, Instance, Number

if TYPE_CHECKING:
    from ddpify.understanding.project import ModuleFile
    from ddpify.understanding.run_state import RunState


def is_counter(run: RunState, part: cst.BaseSlice) -> bool:
    """Whether an index is the name that a loop over ``range()`` around it counts with."""
    through = _gone_through(run, part)
    return through is not None and run.calls_builtin(through, "range")


def counts_each_row(run: RunState, part: cst.BaseSlice) -> bool:
    """Whether an index is what ``range(len(x))`` or ``enumerate(x)`` gives: each of a rank's rows.

    Of ``range(1, len(x))``, some of a rank's rows are others than some of all.
    """
    index = part.value if isinstance(part, cst.Index) else None
    through = _counted_through(run, index, len(run.frames) - 1)
    if not isinstance(through, cst.Call):
        return False
    if run.calls_builtin(through, "enumerate"):
        return len(through.args) == 1
    held = run.seen(through).atoms
    return bool(held) and all(isinstance(one, Instance) and one.each for one in held)


def _counted_through(
    run: RunState, index: cst.BaseExpression | None, level: int
) -> cst.BaseExpression | None:
    """What the loop goes through that an index counts in: in this function, or in its caller."""
    if not isinstance(index, cst.Name) or not run.seen(index).positions:
        return None
    frame = run.frames[level]
    for loop in _loops(frame.module, index):
        if any(name.deep_equals(index) for name in names_of(loop.target)):
            return loop.iter
    given = argument_of(frame, index.value) if level else None
    return _counted_through(run, given, level - 1)


def is_of_one_sample(run: RunState, part: cst.BaseSlice) -> bool:
    """Whether an index is one of a list that the batch has: each tells a sample's own rows."""
    through = _gone_through(run, part)
    held = run.seen(through).atoms if through is not None else ()
    given = [a for a in held if not isinstance(a, Number)]  # a whole batch's
    return bool(given) and all(_is_list_of_batch(run, one) for one in given)


def _is_list_of_batch(run: RunState, atom: Atom) -> bool:
    """Whether this is a part of a batch whose structure is unknown, or a list from outside."""
    if isinstance(atom, Data):
        return atom.form in SEVERAL_TENSORS
    if not isinstance(atom, Instance) or atom.type != "list":
        return False
    here = run.frame.runs is not None and run.module.holds(run.frame.runs, atom.site)
    return not here and bool(atom.elements.data)


def _gone_through(run: RunState, part: cst.BaseSlice) -> cst.BaseExpression | None:
    """What the loop goes through that an index is the target of."""
    index = part.value if isinstance(part, cst.Index) else None
    if not isinstance(index, cst.Name):
        return None
    around = (one.iter for one in _around(run, index) if one.target.deep_equals(index))
    return next(around, None)


def _around(run: RunState, node: cst.BaseExpression) -> Iterator[cst.For | cst.CompFor]:
    """The loops and comprehensions that a node is in, the innermost first."""
    return _loops(run.module, node)


def _loops(module: ModuleFile, node: cst.BaseExpression) -> Iterator[cst.For | cst.CompFor]:
    for above in module.structure.up(node):
        loop = above.for_in if isinstance(above, (cst.ListComp, cst.GeneratorExp)) else above
        if isinstance(loop, (cst.For, cst.CompFor)):
            yield loop
