"""What commands of a project ask of one process alone, such as an evaluation, and of none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.lint.scripts.defaults import Defaults
from ddpify.lint.scripts.left_out import is_off
from ddpify.understanding.syntax import code_of
from ddpify.understanding.taint.sources import DEVICES, LOCAL, TOTAL, WORLD
from ddpify.understanding.texts import launches_of, starts_of

if TYPE_CHECKING:
    from ddpify.lint.scripts.control import Control

Branches = frozenset[tuple[str, bool]]
_OF_RANKS = frozenset({DEVICES, LOCAL, TOTAL, WORLD})


def is_for_one_process(
    control: Control, node: cst.CSTNode, seen: frozenset[cst.CSTNode] = frozenset()
) -> bool:
    """Whether each way to a node leads through an option that commands of one process give, and
    none that starts the script with a launcher.
    """
    script = control.script
    path, texts = script.project.entry.path, script.texts
    launched = launches_of(path, texts)
    alone = [one for one in starts_of(path, texts) if one not in launched]
    if not launched or not alone:
        return False
    asked = [one.test for one in control.guards(node) if one.positive]
    if any(
        is_off(script, script.flow, x, launched) and not is_off(script, script.flow, x, alone)
        for x in asked
    ):
        return True
    function = script.structure_of(node).function(node)
    if function is None or function in seen:
        return False
    callers = control.callers(function)
    inner = seen | {function}
    return bool(callers) and all(is_for_one_process(control, one.node, inner) for one in callers)


def is_asked_of_none(control: Control, node: cst.CSTNode, but: Branches) -> bool:
    """Whether commands start the script, and each way to a node leads through a condition that does
    not hold with the defaults of options and settings, which none of them gives.

    Some conditions are not heeded, ``but``: those that distribute the training.
    """
    starts = starts_of(control.script.project.entry.path, control.script.texts)
    if not starts:
        return False
    defaults = Defaults(control.script, control.script.flow, starts, nothing=False)
    return _is_off_by_default(control, node, defaults, but, frozenset())


def _is_off_by_default(
    control: Control,
    node: cst.CSTNode,
    defaults: Defaults,
    but: Branches,
    seen: frozenset[cst.CSTNode],
) -> bool:
    if any(
        (code_of(one.test), one.positive) not in but
        and _fails(control, one.test, one.positive, defaults)
        for one in control.guards(node)
    ):
        return True
    function = control.script.structure_of(node).function(node)
    if function is None or function in seen or function in control.spawned:
        return False
    inner = seen | {function}
    callers = control.callers(function)
    return bool(callers) and all(
        _is_off_by_default(control, one.node, defaults, but, inner) for one in callers
    )


def _fails(control: Control, test: cst.BaseExpression, positive: bool, defaults: Defaults) -> bool:
    """Whether a test, or a part of it that it needs, has another answer by default."""
    if isinstance(test, cst.BooleanOperation):
        needed = cst.And if positive else cst.Or
        sides = (_fails(control, one, positive, defaults) for one in (test.left, test.right))
        return isinstance(test.operator, needed) and any(sides)
    return not _asks_for_ranks(control, test) and defaults.answer(test) is (not positive)


def _asks_for_ranks(control: Control, test: cst.BaseExpression) -> bool:
    """Whether a condition reads which rank this is, how many ranks or GPUs there are, or what a
    rank has seen.
    """
    return control.asks_rank(test) or bool(control.script.labels(test) & _OF_RANKS)
