"""What commands of a project ask of one process alone: an evaluation, a submission."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.lint.scripts.left_out import is_off
from ddpify.understanding.texts import launches_of, starts_of

if TYPE_CHECKING:
    from ddpify.lint.scripts.control import Control


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
    if any(is_off(script, x, launched) and not is_off(script, x, alone) for x in asked):
        return True
    function = script.structure_of(node).function(node)
    if function is None or function in seen:
        return False
    callers = control.callers(function)
    inner = seen | {function}
    return bool(callers) and all(is_for_one_process(control, one.node, inner) for one in callers)
