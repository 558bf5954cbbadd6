"""What none of the launches that start ranks gets to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.lint.scripts.defaults import Defaults
from ddpify.lint.scripts.launches import launches
from ddpify.records import record
from ddpify.understanding.syntax import code_of
from ddpify.understanding.taint.sources import DEVICES, LOCAL, TOTAL, WORLD

if TYPE_CHECKING:
    from ddpify.lint.scripts.control import Control
    from ddpify.lint.scripts.script import Script

Branches = frozenset[tuple[str, bool]]
_OF_RANKS = frozenset({DEVICES, LOCAL, TOTAL, WORLD})


@record
class Launch:
    """The answers of conditions in the ranks that one command starts.

    Args:
        said: By what the command gives alone.
        careful: Where an option that has no value, such as a checkpoint, may be given later.
        bare: Where what the command does not give stays so.
        alone: Where other commands start one process, each with what that gives.
    """

    said: Defaults
    careful: Defaults
    bare: Defaults
    alone: tuple[Defaults, ...]

    def denies(self, test: cst.BaseExpression, positive: bool, *, later: bool) -> bool:
        """Whether a test has another answer in this launch.

        Of what is done in ``later`` runs, only where this or other commands speak of it.
        """
        told = self.said if later else self.careful
        if told.answer(test) is (not positive):
            return True
        return self.bare.answer(test) is (not positive) and any(
            one.answer(test) is not (not positive) for one in self.alone
        )


def known_launches(script: Script) -> tuple[Launch, ...] | None:
    """The launches that start ranks of a script; None where no command is known."""
    found = launches(script)
    if not found.known:
        return None

    def told(command: str, *, nothing: bool = True, unsaid: bool = True) -> Defaults:
        return Defaults(script, script.flow, [command], nothing=nothing, unsaid=unsaid)

    alone = tuple(told(one) for one in found.alone)
    return tuple(
        Launch(told(one, unsaid=False), told(one, nothing=False), told(one), alone)
        for one in found.of_ranks
    )


def is_reached_by_none(
    script: Script, node: cst.CSTNode, but: Branches, *, later: bool = False
) -> bool:
    """Whether commands start a script, and none that starts ranks gets to a node.

    Each then has a condition on every way to the node that does not hold with what it gives.
    Some conditions are not heeded, ``but``: those that distribute the training.
    """
    known = script.once(known_launches)
    return known is not None and all(
        _is_denied(script.control, node, one, but, later) for one in known
    )


def is_off_in_all(script: Script, test: cst.BaseExpression) -> bool:
    """Whether commands start a script, and a test holds in none of its ranks."""
    known = script.once(known_launches)
    return bool(known) and all(one.denies(test, True, later=False) for one in known or ())


def _is_denied(
    control: Control, node: cst.CSTNode, launch: Launch, but: Branches, later: bool
) -> bool:
    """Whether each way to a node has a condition that does not hold in a launch."""

    def denied(one: cst.CSTNode) -> bool:
        return any(
            (code_of(guard.test), guard.positive) not in but
            and _fails(control, guard.test, guard.positive, launch, later)
            for guard in control.guards(one)
        )

    return control.holds_on_every_way(node, denied, begins=control.spawned)


def _fails(
    control: Control, test: cst.BaseExpression, positive: bool, launch: Launch, later: bool
) -> bool:
    """Whether a test, or a part of it that it needs, has another answer in a launch."""
    if isinstance(test, cst.BooleanOperation):
        needed = cst.And if positive else cst.Or
        sides = (_fails(control, x, positive, launch, later) for x in (test.left, test.right))
        if isinstance(test.operator, needed):
            return any(sides)
    return not _asks_for_ranks(control, test) and launch.denies(test, positive, later=later)


def _asks_for_ranks(control: Control, test: cst.BaseExpression) -> bool:
    """Whether a condition reads which rank this is, how many ranks or GPUs there are, or what a
    rank has seen.
    """
    return control.asks_rank(test) or bool(control.script.labels(test) & _OF_RANKS)
