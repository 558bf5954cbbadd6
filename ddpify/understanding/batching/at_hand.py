"""Which batch is the one at hand: reductions go by how the batch that came last is shared.

``next(iter(check))`` in a training step takes another batch. What is reduced after it goes by the
share of that one, though it may come from the batch of the step.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.facts import OutOfTurn
from ddpify.understanding.values import Data, Instance

if TYPE_CHECKING:
    from ddpify.understanding.interpreter import Interpreter


def taken(run: Interpreter, sources: frozenset[Instance]) -> None:
    """A batch has come from one of these loaders."""
    if sources:
        run.at_hand = frozenset({sources})


def asked(run: Interpreter, sources: frozenset[Instance]) -> None:
    """``next()`` has given a batch, perhaps while another loader's is at hand."""
    if any(owner.isdisjoint(sources) for owner in run.at_hand):
        run.facts.beside |= sources
    taken(run, sources)


def left(run: Interpreter) -> None:
    """A loop has ended: the batch of the loop around it is the one at hand again, if it has one."""
    ended = run.frame.loops[-1].own
    around = [loop.own for frame in run.frames for loop in frame.loops if loop.own]
    if ended:
        taken(run, around[-2] if len(around) > 1 else ended)


def used(run: Interpreter, node: cst.CSTNode, rows: Iterable[Data]) -> None:
    """Something goes by how the batch is shared that these rows, or parts, come from."""
    for data in rows:
        loaders = frozenset(one for one in data.loaders if one.role == "loader")
        made = {one.site for one in loaders}  # what was decided names those of an earlier run
        for owner in run.at_hand:
            if made and made.isdisjoint(one.site for one in owner):
                found = OutOfTurn(run.site(node), loaders, owner)
                run.facts.out_of_turn.setdefault(node, found)
