"""Numbers that surely are a rank's own, in all ways in which they get their value.

Labels tell what may come to a name. Where a name also gets something else, it is not known which of
the two a place reads.
"""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.dependencies import Dependency
from ddpify.understanding.taint.flow_edges import Move
from ddpify.understanding.taint.locations import Slot
from ddpify.understanding.taint.sources import GIVEN, LOADED, LOCAL, TOTAL

_PARTS = frozenset({LOCAL, TOTAL, *GIVEN.values()})


def is_surely_own(script: Script, node: cst.BaseExpression) -> bool:
    """Whether an expression is made from a rank's own part of the data whatever ran before."""
    module = script.owners.get(node, script.module)
    made = script.flow.made_of.of(node, module)
    return script.strict or any(_is_sure(script, one, set()) for one in made)


def _is_sure(script: Script, one: Dependency, seen: set[Slot]) -> bool:
    slot = one.slot
    if slot is None or not script.flow.labels.get(slot, set()) & _PARTS:
        return False
    if slot in seen:
        return True  # made from itself: what else it is made of decides
    if slot[0] not in ("name", "result"):
        return True  # objects are told apart by what each is told
    moves = [
        move
        for move in script.flow.moves_to({slot})
        if one.key is None or move.key in (None, one.key)
    ]
    if any(move.passes for move in moves):
        return True  # what one of the callers passes
    inner = seen | {slot}
    brings = [move for move in moves if _brings_part(script, move, one, inner)]
    if any(map(_adds, brings)):
        return True  # to whatever is there
    return bool(brings) and all(
        move in brings or _says_nothing(script, move, slot) for move in moves
    )


def _adds(move: Move) -> bool:
    """``x += y``, ``x.append(y)``, ``x[key] = y``, ``x = (x * i + y) / n``."""
    if isinstance(move.node, cst.Assign):
        return move.adds or any(isinstance(one.target, cst.Subscript) for one in move.node.targets)
    return isinstance(move.node, (cst.AugAssign, cst.Call))


def _brings_part(script: Script, move: Move, asked: Dependency, seen: set[Slot]) -> bool:
    if script.takes_batches(move):
        return True
    return any(_is_sure(script, one, seen) for one in (*move.source, *(asked.given or ())))


def _says_nothing(script: Script, move: Move, slot: Slot) -> bool:
    """Whether a move sets a start, goes on from what is there, or takes what another run left."""
    if move.value is None or any(one.slot == slot for one in move.source):
        return True
    if isinstance(move.value, cst.Name) and move.value.value in ("None", "True", "False"):
        return True
    if not move.source and all(_is_plain(script, one) for one in walk(move.value)):
        return True
    return any(
        one.label == LOADED if one.slot is None else LOADED in script.flow.labels.get(one.slot, ())
        for one in move.source
    )


def _is_plain(script: Script, node: cst.CSTNode) -> bool:
    """Not a call of anything but Python's own functions: ``float("inf")``."""
    return not isinstance(node, cst.Call) or all(
        name.startswith(("builtins.", "numpy.", "torch.", "math.", "collections."))
        for name in script.names(node.func) or ["?"]
    )
