"""What one process alone gets to, since the others fail at a folder that it has made before."""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.structure import Guard, walk
from ddpify.understanding.syntax import argument, spreads
from ddpify.understanding.taint.sources import ANY_RANK

_MAKING = ("os.makedirs", "os.mkdir")


def asks_for_path(script: Script, guard: Guard) -> bool:
    """``if not os.path.exists(folder):``."""
    return any("os.path." in name for n in walk(guard.test) for name in script.names(n))


def is_past_a_folder(script: Script, node: cst.CSTNode) -> bool:
    """Whether each way to a node leads past ``os.makedirs(folder)`` in a branch for a folder that
    is not there: of the ranks that go into that branch, one makes the folder, and the others fail.
    """
    made = script.once(_making_first)
    return bool(made) and script.control.holds_on_every_way(
        node, lambda one: any(_is_after(script, one, call) for call in made)
    )


def _making_first(script: Script) -> tuple[cst.Call, ...]:
    """The calls that fail where another rank has made the same folder."""
    return tuple(
        call
        for call in script.calls(*_MAKING, everywhere=True)
        if argument(call, "exist_ok", 2) is None
        and not spreads(call)
        and not script.control.in_try(call)
        and any(asks_for_path(script, one) for one in script.control.guards(call))
        and not any(
            script.flow.sources(one.value, script.owners[call]) & ANY_RANK for one in call.args
        )
    )


def _is_after(script: Script, node: cst.CSTNode, call: cst.Call) -> bool:
    """Whether a node comes after a call in the same function, under all of its conditions."""
    structure = script.structure_of(call)
    if script.structure_of(node) is not structure or structure.loops(call):
        return False
    if structure.function(node) is not structure.function(call):
        return False
    order = structure.order
    if node not in order or order[node] <= order[call] or call in structure.up(node):
        return False
    asked = {(one.statement, one.positive) for one in script.control.guards(node)}
    return {(one.statement, one.positive) for one in script.control.guards(call)} <= asked
