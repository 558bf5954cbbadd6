"""Sums that a loop over the samples of a forward's batch makes: each rank adds up its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.definite_assignment import target_names
from ddpify.understanding.frames import Loop
from ddpify.understanding.placement import Placement
from ddpify.understanding.structure import walk
from ddpify.understanding.values import NO_ROWS, UNKNOWN, Const, Data, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_LEAVING_OUT = (cst.Continue, cst.Break, cst.Return)
_CONDITIONAL = (cst.If, cst.While, cst.Try, cst.TryStar, cst.Match)


def made_by(run: RunState, loop: Loop, before: Mapping[str, Value]) -> None:
    """Let names to which each round adds something of its sample be sums over this rank's.

    ``before``: what names stood for before the loop. What is not zero then would be added on
    each rank.
    """
    if not loop.rows or not run.frames_forward() or run.collating:
        return
    names = run.frame.scope.names
    for name in [one for one, held in names.items() if _is_of_samples(held)]:
        if before.get(name, UNKNOWN).constant() == 0 and _adds_in_each_round(run, loop.node, name):
            names[name] = value(*(one.placed(Placement.SUM) for one in names[name].of(Data)))


def _is_of_samples(held: Value) -> bool:
    """Whether a name holds what single samples have made, or the zero that it began with."""
    made = [one for one in held.of(Data) if one.placement is Placement.SHARD]
    alone = len(made) == sum(1 for one in held.atoms if not isinstance(one, Const))
    return bool(made) and alone and all(one.dim == NO_ROWS for one in made)


def _adds_in_each_round(run: RunState, loop: cst.CSTNode, name: str) -> bool:
    """Whether all that a loop does to a name is ``name = name + part`` or ``name += part``.

    Where a round may leave it out, a rank may have none that does, and no tensor to reduce.
    """
    set_ = [*_assignments(loop, name)]
    if not set_ or any(isinstance(one, _LEAVING_OUT) for one in walk(loop)):
        return False
    around = (one for node in set_ for one in _within(run, node, loop))
    return all(_adds(one, name) for one in set_) and not any(
        isinstance(one, _CONDITIONAL) for one in around
    )


def _within(run: RunState, node: cst.CSTNode, loop: cst.CSTNode) -> Iterator[cst.CSTNode]:
    for above in run.module.structure.up(node):
        if above is loop:
            return
        yield above


def _assignments(loop: cst.CSTNode, name: str) -> Iterator[cst.CSTNode]:
    for node in walk(loop):
        if isinstance(node, cst.Assign):
            found = [bound for one in node.targets for bound in target_names(one.target)]
        elif isinstance(node, (cst.AugAssign, cst.AnnAssign, cst.NamedExpr, cst.For, cst.CompFor)):
            found = [*target_names(node.target)]
        else:
            continue
        if name in found:
            yield node


def _adds(statement: cst.CSTNode, name: str) -> bool:
    if isinstance(statement, cst.AugAssign):
        parts = [statement.value]
        plus = isinstance(statement.operator, cst.AddAssign)
    else:
        made = statement.value if isinstance(statement, cst.Assign) else None
        if not isinstance(made, cst.BinaryOperation) or not isinstance(made.operator, cst.Add):
            return False
        sides = [made.left, made.right]
        parts = [one for one in sides if not (isinstance(one, cst.Name) and one.value == name)]
        plus = len(parts) == 1
    inside = (one for part in parts for one in walk(part))
    return plus and not any(isinstance(one, cst.Name) and one.value == name for one in inside)
