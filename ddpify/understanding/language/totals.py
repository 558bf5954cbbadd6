"""Running totals: names and attributes that code adds to before it reads them in any other way.

What a round of a loop starts with is more than what the first one did: a number beside a literal
zero. Adding to either gives the same, so that the loop need not be gone through once more. So it is
with the next call of a meter's ``update()``, of which the attributes count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.frames import Loop
from ddpify.understanding.liveness import taken_over
from ddpify.understanding.placement import Placement
from ddpify.understanding.values import Atom, Const, Data, Instance, Number, Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def added(run: RunState, node: cst.AugAssign, old: Value, new: Value, result: Value) -> None:
    """Note for the loops in progress what adding to a name has given."""
    if not run.frame.loops or not isinstance(node.target, cst.Name):
        return
    known = _gives_one_number(run, node.target, (old, new), result)
    name = node.target.value
    for loop in run.frame.loops:
        same = known and loop.totals.get(name, result) == result
        loop.totals[name] = result if same else None


def read(run: RunState, target: cst.BaseExpression) -> tuple[Value, list[Instance]]:
    """What is to be added to; the objects of which nothing else has read it, if an attribute."""
    if not isinstance(target, cst.Attribute):
        return run.eval(target), []
    run.added_to, run.unread = target, []
    old = run.eval(target)
    unread = run.unread if run.added_to is target else []  # and no call in it has added to another
    run.added_to = None
    return old, unread


def added_to_attribute(
    run: RunState,
    node: cst.AugAssign,
    unread: list[Instance],
    sides: tuple[Value, Value],
    result: Value,
) -> None:
    """Adding to an attribute of these objects has given this: it is more from now on."""
    assert isinstance(node.target, cst.Attribute)
    if not _gives_one_number(run, node.target, sides, result):
        return
    run.facts.record(node.target, result)
    for made in unread:
        made.read_for_total(node.target.attr.value, result)


def _gives_one_number(
    run: RunState, target: cst.BaseExpression, sides: tuple[Value, Value], result: Value
) -> bool:
    """Whether an addition of plain numbers gives one, whichever of them these are."""
    plain = all(_is_plain(atom) for side in sides for atom in side.atoms)
    decided = run.choices.reduced or run.choices.split or run.choices.batches
    return plain and len(result.atoms) == 1 and not (decided and _is_chosen(run, target))


def _is_chosen(run: RunState, target: cst.BaseExpression) -> bool:
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
