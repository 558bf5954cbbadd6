"""Gradient accumulation: several backward passes for one step of the optimizer."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.records import record
from ddpify.understanding.structure import Guard, walk

Loop = cst.For | cst.While


@record
class Window:
    """A loop over micro-batches, its backward, and the condition under which it steps."""

    loop: Loop
    backward: cst.CSTNode
    step: cst.Call
    guard: Guard


def windows(script: Script) -> Iterator[Window]:
    """The accumulation loops of this file: a backward in each round, a step in each k-th."""
    seen: set[cst.CSTNode] = set()
    for node in script.facts.backwards:
        loops = script.structure_of(node).loops(node)
        if script.owners.get(node) is not script.module or not loops or loops[0] in seen:
            continue
        found = _step(script, loops[0])
        if found is not None and not _is_under(script, node, found[1]):
            seen.add(loops[0])
            yield Window(loops[0], node, *found)


def _step(script: Script, loop: Loop) -> tuple[cst.Call, Guard] | None:
    """The optimizer's step that a loop makes under a test with ``%``; none under another one."""
    found: tuple[cst.Call, Guard] | None = None
    for call in script.reached(loop):
        if not isinstance(call, cst.Call) or not _steps(script, call):
            continue
        guard = next((g for g in script.control.guards(call) if _is_periodic(script, g)), None)
        if guard is None or (found is not None and found[1].statement is not guard.statement):
            return None
        found = (call, guard)
    return found


def _steps(script: Script, call: cst.Call) -> bool:
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "step":
        return False
    held = [*script.instances(call.func.value)]
    scaled = any(isinstance(one.type, str) and one.type.endswith("GradScaler") for one in held)
    return scaled or any(one.role == "optimizer" for one in held)


def _is_periodic(script: Script, guard: Guard) -> bool:
    """``(i + 1) % k == 0``, also beside other conditions, or in a name."""
    return guard.positive and any(
        isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo)
        for node in walk(condition(script, guard))
    )


def condition(script: Script, guard: Guard) -> cst.BaseExpression:
    """What a test asks: the expression that its name was set to, where it is a name set once."""
    if not isinstance(guard.test, cst.Name):
        return guard.test
    structure = script.structure_of(guard.test)
    scope = structure.function(guard.test)
    values = [
        assign.value
        for assign in structure.all(cst.Assign)
        if structure.function(assign) is scope
        and any(
            isinstance(target.target, cst.Name) and target.target.value == guard.test.value
            for target in assign.targets
        )
    ]
    return values[0] if len(values) == 1 else guard.test


def _is_under(script: Script, node: cst.CSTNode, guard: Guard) -> bool:
    return any(one.statement is guard.statement for one in script.control.guards(node))
