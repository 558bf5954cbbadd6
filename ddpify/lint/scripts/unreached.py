"""Code that no rank of a run gets to: of libraries, of tests, beside what joins the group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.libraries.distributed import (
    INIT_GROUP,
)

if TYPE_CHECKING:
    from ddpify.lint.scripts.control import Control


def joins_no_group(control: Control, node: cst.CSTNode) -> bool:
    """Whether a node is in a function that no path through the start of the group leads to.

    Only where the project starts the group in a function of its own.
    """
    starts = {
        control.script.structure_of(call).function(call)
        for call in control.script.calls(INIT_GROUP, everywhere=True)
    }
    function = control.script.structure_of(node).function(node)
    if not starts or None in starts or function is None:
        return False
    starting = {one for start in starts for one in _above(control, start)}
    return None not in starting and not starting & _above(control, function)


def _above(control: Control, function: cst.FunctionDef | None) -> set[cst.FunctionDef | None]:
    """A function and all that lead to it; None for the file itself."""
    found: set[cst.FunctionDef | None] = {function}
    todo = [function]
    while todo:
        one = todo.pop()
        for site in _places_of_calls(control, one) if one is not None else ():
            caller = control.script.structure_of(site).function(site)
            if caller not in found:
                found.add(caller)
                todo.append(caller)
    return found


def is_behind_an_end(control: Control, node: cst.CSTNode) -> bool:
    """Whether a node is in a function whose calls all stand where no run gets to, as after
    ``exit()``.
    """
    function = control.script.structure_of(node).function(node)
    if function is None or function in control.spawned or control.callers(function):
        return False
    calls = _places_of_calls(control, function)
    return bool(calls) and all(
        isinstance(one, cst.Call) and one.func not in control.script.facts.values for one in calls
    )


def _places_of_calls(control: Control, function: cst.FunctionDef) -> list[cst.CSTNode]:
    """Where a function is called; of one that no run gets to, what names it so."""
    known = [site.node for site in control.callers(function)]
    name = function.name.value
    return known or [
        call
        for structure in control.script.structures.values()
        for call in structure.all(cst.Call)
        if (isinstance(call.func, cst.Attribute) and call.func.attr.value == name)
        or (isinstance(call.func, cst.Name) and call.func.value == name)
    ]


def is_called_from_elsewhere(control: Control, node: cst.CSTNode) -> bool:
    """Whether a node is in a library: in a function that nothing in sight calls."""
    if control.script.is_whole_program:
        return False
    function = control.script.structure_of(node).function(node)
    above = _above(control, function)
    return None not in above and not any(one in control.spawned for one in above)


def tests_something(control: Control) -> bool:
    """Whether a file holds tests that pytest collects, or helps them, and starts no group."""
    path, script = control.script.module.path, control.script
    if "tests" in path.parts and not script.is_whole_program and not script.calls(INIT_GROUP):
        return True
    name = path.name
    if not (name.startswith("test_") or name.endswith("_test.py")):
        return False
    tests = any(
        one.name.value.startswith("test_") for one in control.script.structure.all(cst.FunctionDef)
    )
    return tests and not control.script.calls(INIT_GROUP)
