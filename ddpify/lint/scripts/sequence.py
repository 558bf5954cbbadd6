"""Which of two places runs first."""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.syntax import code_of

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
    if depth == 0:
        return False
    caller = script.structure_of(early).function(early)
    inside = _made(script, caller) if caller is not None else _imports(script, early)
    if inside and all(runs_only_after(script, late, one, depth - 1) for one in inside):
        return True
    outside = _calls(script, function)
    return bool(outside) and all(runs_only_after(script, one, early, depth - 1) for one in outside)


def _calls(script: Script, function: cst.CSTNode | None) -> Sequence[cst.CSTNode]:
    """The places that call a function; none where processes begin with it."""
    if not isinstance(function, cst.FunctionDef) or function in script.control.spawned:
        return []
    return [one.node for one in script.control.callers(function)]


def _made(script: Script, function: cst.CSTNode) -> Sequence[cst.CSTNode]:
    """The places that call a function, without those in classes that nothing makes."""
    found = _calls(script, function)
    return [one for one in found if not _is_of_an_unmade_class(script, one)] or found


def _is_of_an_unmade_class(script: Script, node: cst.CSTNode) -> bool:
    """``super().__init__()`` in a class of which the run makes no object."""
    function = script.structure_of(node).function(node)
    made = isinstance(function, cst.FunctionDef) and function.name.value == "__init__"
    return made and not _calls(script, function)


def _imports(script: Script, node: cst.CSTNode) -> Sequence[cst.CSTNode]:
    """Where the script that a run starts with imports the file of a node, above all else there."""
    module, entry = script.owners.get(node), script.project.entry
    if module is None or module is entry:
        return []
    structure = script.structures[entry]
    named = re.compile(rf"\b{re.escape(module.path.stem)}\b")
    return [
        one
        for one in structure.all(cst.Import, cst.ImportFrom)
        if structure.function(one) is None and named.search(code_of(one))
    ][:1]


def _runs_once(script: Script, function: cst.CSTNode | None) -> bool:
    """Whether a function is called at one place, and in no loop there."""
    if not isinstance(function, cst.FunctionDef):
        return function is None
    calls = script.control.callers(function)
    return len(calls) <= 1 and not any(
        script.structure_of(one.node).loops(one.node) for one in calls
    )
