"""Where a literal GPU harms no other rank: code of one rank, or a device that nothing uses."""

from __future__ import annotations

import re

import libcst as cst

from ddpify.lint.scripts.doubts import asks_for_any_rank
from ddpify.lint.scripts.literal_devices import SET_DEVICE
from ddpify.lint.scripts.script import Script
from ddpify.understanding.syntax import code_of
from ddpify.understanding.taint.sources import ANY_RANK


def harms_nobody(script: Script, node: cst.CSTNode) -> bool:
    """Code that may not run on every rank, and files that nothing is known to call."""
    return (
        script.may_be_guarded(node)
        or _in_other_branch(script, node)
        or _sees_its_gpu_alone(script, node)
        or _is_asked_about(script, node)
        or _is_never_read(script, node)
        or _may_be_another(script, node)
    )


def _is_asked_about(script: Script, node: cst.CSTNode) -> bool:
    """Whether the device is only asked for its memory or its name."""
    above = script.structure.parents.get(script.structure.parents.get(node, node))
    return isinstance(above, cst.Call) and any(
        name.startswith("torch.cuda.") and name not in SET_DEVICE
        for name in script.names(above.func)
    )


def _is_never_read(script: Script, node: cst.CSTNode) -> bool:
    """``device = torch.device("cuda:0")``, of which nothing is made."""
    above = script.structure.parents.get(node)
    if not isinstance(node, cst.Call) or "torch.device" not in script.names(node.func):
        return False
    if not isinstance(above, cst.Assign) or not isinstance(above.targets[0].target, cst.Name):
        return False
    name = above.targets[0].target
    return not script.strict and not any(
        one.value == name.value and one is not name
        for structure in script.structures.values()
        for one in structure.all(cst.Name)
    )


def _may_be_another(script: Script, node: cst.CSTNode) -> bool:
    """``device = torch.device("cuda:0")``, whose name is also set to a device of the rank."""
    if script.strict:
        return False
    above = script.structure.parents.get(node)
    edges = script.flow.edges_at(above) if above is not None else ()
    targets = {location for edge in edges if edge.value is node for location in edge.targets}
    return any(
        edge.value is not None and bool(origins(script, edge.value) & ANY_RANK)
        for edge in script.flow.edges_into(targets)
    )


def _sees_its_gpu_alone(script: Script, node: cst.CSTNode) -> bool:
    """Whether GPU 0 is meant where the script shows each rank a GPU of its own."""
    if number(script, node) not in ([], ["0"]):
        return False
    return any(
        "CUDA_VISIBLE_DEVICES" in script.code(one.target, 200)
        and isinstance(whole, cst.Assign)
        and bool(script.flow.sources(whole.value, script.module) & ANY_RANK)
        for one in script.structure.all(cst.AssignTarget)
        for whole in (script.structure.parents.get(one),)
    )


def _in_other_branch(script: Script, node: cst.CSTNode) -> bool:
    """The branch for runs that are not distributed; only asking for a GPU is no excuse."""
    wrapping = {
        (code_of(guard.test), guard.positive)
        for wrap in script.wraps
        for guard in script.control.guards(wrap.site.node)
    }
    for guard in script.control.guards(node):
        if (code_of(guard.test), guard.positive) in wrapping or asks_for_any_rank(guard):
            continue  # a branch that the wrapper is in, too, or one of the same question
        text = script.code(guard.test, 200)
        if "is_available" not in text or "dist" in text:
            return True
    return False


def number(script: Script, node: cst.CSTNode) -> list[str]:
    """The number of the GPU that a literal names, if it names any."""
    return re.findall(r"[:(\[=, ](\d+)", script.code(node, 200))[-1:]


def origins(script: Script, node: cst.BaseExpression) -> set[str]:
    """The labels of all that an expression is made of."""
    return script.flow.sources(node, script.owners.get(node, script.module))
