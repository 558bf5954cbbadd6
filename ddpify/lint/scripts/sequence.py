"""Which of two places runs first."""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.script import Script

_DEPTH = 4


def runs_only_after(
    script: Script, late: cst.CSTNode, early: cst.CSTNode, depth: int = _DEPTH
) -> bool:
    """Whether a place is reached only when another has run, in a function that runs once."""
    structure = script.structure_of(late)
    function = structure.function(late)
    if structure is script.structure_of(early) and structure.function(early) is function:
        around = {id(one) for one in structure.loops(early)}
        in_one_loop = any(id(one) in around for one in structure.loops(late))
        return (
            _runs_once(script, function)
            and not in_one_loop
            and structure.order[early] < structure.order[late]
        )
    caller = script.structure_of(early).function(early)
    if caller is None or depth == 0:
        return False
    calls = script.control.callers(caller)
    return bool(calls) and all(runs_only_after(script, late, one.node, depth - 1) for one in calls)


def _runs_once(script: Script, function: cst.CSTNode | None) -> bool:
    """Whether a function is called at one place, and in no loop there."""
    if not isinstance(function, cst.FunctionDef):
        return function is None
    calls = script.control.callers(function)
    return len(calls) <= 1 and not any(
        script.structure_of(one.node).loops(one.node) for one in calls
    )
