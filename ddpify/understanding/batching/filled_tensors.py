"""Tensors that a script fills by position: their rows are not there before they are filled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_EMPTY = frozenset("zeros ones full empty zeros_like ones_like full_like empty_like".split())


def is_filled(run: RunState, target: cst.BaseExpression, made: cst.BaseExpression) -> bool:
    """Whether the rows of what gets a name here are written later, by their positions.

    ``x[mask] = 0`` changes some of the rows that are there, unless a tensor of zeros gets its
    values so; then it is split where it is used.
    """
    if not run.choices.by_hand or not isinstance(target, (cst.Name, cst.Attribute)):
        return False
    called = made.func if isinstance(made, cst.Call) else None
    name = called.attr if isinstance(called, cst.Attribute) else called
    empty = isinstance(name, cst.Name) and name.value in _EMPTY
    tree = run.module.structure
    scope = tree.function(target) or tree.tree
    written = (w for w in tree.items_set(target, scope) if w.value.deep_equals(target))
    return any(_takes_rows(run, one, empty=empty) for one in written)


def _takes_rows(run: RunState, written: cst.Subscript, *, empty: bool) -> bool:
    first = written.slice[0].slice
    if isinstance(first, cst.Slice):
        return not (first.lower is first.upper is first.step is None)
    if not isinstance(first, cst.Index) or isinstance(first.value, cst.Ellipsis):
        return False
    index = first.value
    return empty or isinstance(index, cst.Integer) or _is_counted(run, index)


def _is_counted(run: RunState, index: cst.BaseExpression) -> bool:
    """Whether an index is what a loop around it counts by."""
    targets = (
        loop.target for loop in run.module.structure.loops(index) if isinstance(loop, cst.For)
    )
    names = {n.value for t in targets for n in run.module.structure.inside(t, cst.Name)}
    return isinstance(index, cst.Name) and index.value in names
