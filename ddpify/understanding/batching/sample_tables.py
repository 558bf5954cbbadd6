"""What a loop over a batch's samples fills step by step: counters, tables by label, sets.

One process goes through the samples of the whole batch. Each rank would count its own.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding import uses
from ddpify.understanding.batching import in_place_writes
from ddpify.understanding.placement import Placement
from ddpify.understanding.syntax import indices_of
from ddpify.understanding.values import Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def item(run: RunState, target: cst.BaseExpression) -> None:
    """``table[label] = ...``: the labels must be those of all samples."""
    if _is_of_one_round(run, target):
        return
    while isinstance(target, cst.Subscript):  # table[label][guess] has two
        for index in indices_of(target) if not run.seen(target.value).data else ():
            element(run, index, run.seen(index))
        target = target.value


def grown(run: RunState, target: cst.BaseExpression) -> None:
    """``found.append(...)``, where ``found = table[label]``, or in an expression."""
    if not (isinstance(target, cst.Subscript) and _is_of_one_round(run, target)):
        element(run, target, run.seen(target))


def element(run: RunState, shown: cst.BaseExpression, one: Value) -> None:
    """What a set takes, or a table is read by, must be that of all samples."""
    for data in one.data:
        if data.placement is Placement.ROWS and data.definition_sites:
            run.demand(shown, value(data), uses.A_TABLE)


def _is_of_one_round(run: RunState, target: cst.BaseExpression) -> bool:
    """Whether what is filled is made anew in each round of a loop over the samples."""
    kept = next(in_place_writes.holders(target), None)
    inner = takewhile(lambda loop: not loop.takes_batches, reversed(run.frame.loops))
    return isinstance(kept, cst.Name) and any(
        run.is_made_in_round(kept.value, loop) for loop in inner
    )
