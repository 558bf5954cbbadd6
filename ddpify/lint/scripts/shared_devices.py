"""Where a literal GPU harms no other rank: code of one rank, or a device that nothing uses."""

from __future__ import annotations

import re

import libcst as cst

from ddpify.lint.scripts.doubts import asks_for_any_rank
from ddpify.lint.scripts.literal_devices import SET_DEVICE
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.script_kinds import MAY_ASK
from ddpify.understanding.libraries.distributed import INIT_GROUP
from ddpify.understanding.structure import Guard
from ddpify.understanding.syntax import code_of
from ddpify.understanding.taint.sources import ANY_RANK, WORLD

_OF_A_GPU = re.compile(r"is_available|cuda")  # ``device.type == "cuda"``, ``args.cuda``


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
    distributed = script.once(_of_distributed_runs)
    for guard in script.control.guards(node):
        if _answer(guard) in distributed or asks_for_any_rank(guard):
            continue  # a branch that the wrapper is in, too, or one of the same question
        text = script.code(guard.test, 200)
        if _OF_A_GPU.search(text) and "dist" not in text:
            continue
        if not (guard.left_early and _asks_for_something_else(script, guard.test)):
            return True
    return False


def _of_distributed_runs(script: Script) -> frozenset[tuple[str, bool]]:
    """The answers with which a model is wrapped, or the group starts."""
    places = [wrap.site.node for wrap in script.wraps]
    places += script.calls(INIT_GROUP, everywhere=True)
    return frozenset(_answer(guard) for place in places for guard in script.control.guards(place))


def _answer(guard: Guard) -> tuple[str, bool]:
    """A question by its text, which may stand elsewhere again, with its answer."""
    return code_of(guard.test), guard.positive


def _asks_for_something_else(script: Script, test: cst.BaseExpression) -> bool:
    """``if choice != "auto": return torch.device(choice)``: no question about the launch, so what
    comes after it is on the way of most runs, distributed ones among them.
    """
    return not (MAY_ASK.search(code_of(test)) or script.labels(test) & (ANY_RANK | {WORLD}))


def number(script: Script, node: cst.CSTNode) -> list[str]:
    """The number of the GPU that a literal names, if it names any."""
    return re.findall(r"[:(\[=, ](\d+)", script.code(node, 200))[-1:]


def origins(script: Script, node: cst.BaseExpression) -> set[str]:
    """The labels of all that an expression is made of."""
    return script.flow.sources(node, script.owners.get(node, script.module))
