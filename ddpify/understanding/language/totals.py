"""Running totals: names that a round of a loop adds to before it reads them in any other way.

What a round starts with is more than what the first one did: a number beside a literal zero. Adding
to either gives the same, so that the loop need not be gone through once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.frames import Loop
from ddpify.understanding.liveness import taken_over
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import Atom, Const, Data, Number, Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def added(run: RunState, node: cst.AugAssign, old: Value, new: Value, result: Value) -> None:
    """Note for the loops in progress what adding to a name has given."""
    if not run.frame.loops or not isinstance(node.target, cst.Name):
        return
    plain = all(map(_is_plain, old.atoms)) and all(map(_is_plain, new.atoms))
    decided = run.choices.reduced or run.choices.split or run.choices.batches
    known = plain and len(result.atoms) == 1 and not (decided and _is_chosen(run, node.target))
    name = node.target.value
    for loop in run.frame.loops:
        same = known and loop.totals.get(name, result) == result
        loop.totals[name] = result if same else None


def _is_chosen(run: RunState, target: cst.Name) -> bool:
    choices = run.choices
    return run.reduces(target) or target in choices.split or target in choices.batches


def _is_plain(atom: Atom) -> bool:
    """Whether this is a number that is the same on every rank: arithmetic of it has no effects."""
    if isinstance(atom, Data):
        return atom.placement is Placement.REPLICATE
    return isinstance(atom, (Const, Number))


def is_settled(loop: Loop, name: str, late: Value) -> bool:
    """Whether rounds that start with this, too, do the same as the one that has left it."""
    total = loop.totals.get(name)
    if total is None or name in taken_over(loop.node, additions=False):
        return False
    return all(
        _is_plain(atom) and (atom in total.atoms or not isinstance(atom, Data))
        for atom in late.atoms
    )
