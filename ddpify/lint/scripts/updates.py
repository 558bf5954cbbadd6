"""Calls that change what is trained: steps of optimizers, scalers and schedules."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.own_schedules import is_own_schedule
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.unseen_steps import KNOWN
from ddpify.understanding.taint.call_graph import called
from ddpify.understanding.taint.flow_edges import FlowEdge
from ddpify.understanding.values import Class, Instance, Params, deep_atoms

_SCHEDULES = "torch.optim.lr_scheduler."
_DEEP = 4  # from one name to another, and from an object to what another package made it of


def updated(script: Script, call: cst.Call) -> set[str]:
    """What a method call may update: "optimizer", "learning rate" or "loss scale"."""
    if not isinstance(call.func, cst.Attribute) or _gets_parameters(script, call):
        return set()
    method = call.func.attr.value
    kinds = {_kind(one, method) for one in script.instances(call.func.value)}
    found = {one for one in kinds if one is not None}
    if found or method != "step":
        return found
    return {*_kinds_of_unseen(script, call.func.value, _DEEP)}


def _kind(one: Instance, method: str) -> str | None:
    known = one.type.library_bases() if isinstance(one.type, Class) else [one.type]
    if one.role == "optimizer" and method in ("step", "zero_grad"):
        return "optimizer"
    scheduled = any(name.startswith(_SCHEDULES) for name in known) or is_own_schedule(one)
    if method == "step" and scheduled:
        return "learning rate"
    if any(name.endswith("amp.GradScaler") for name in known) and method in ("step", "update"):
        return "optimizer" if method == "step" else "loss scale"
    return None


def _gets_parameters(script: Script, call: cst.Call) -> bool:
    """``ema.step(model.parameters())``: an average of them is nothing that trains."""
    given = [script.value(one.value) for one in call.args]
    return any(_is_trained(one) for held in given for one in held.atoms)


def _is_trained(atom: object) -> bool:
    return isinstance(atom, Params) or (isinstance(atom, Instance) and atom.role == "model")


def _kinds_of_unseen(script: Script, node: cst.BaseExpression, depth: int) -> Iterator[str]:
    """What an object of another package steps: the parameters that it was made of, or the optimizer
    that it was, which it is itself if it takes its name. A function may be given the object.
    """
    if not isinstance(node, (cst.Name, cst.Attribute)) or not depth:
        return
    for edge in script.flow.edges_into(script.control.locations(node)):
        made = edge.value
        if isinstance(made, (cst.Name, cst.Attribute)):
            yield from _kinds_of_unseen(script, made, depth - 1)
        if not isinstance(made, cst.Call) or not _is_of_a_package(script, made):
            continue
        given = [one.value for one in made.args]
        if any(_is_trained(atom) for one in given for atom in deep_atoms(script.value(one))):
            yield "optimizer"
        elif any(_may_be_optimizer(script, one, depth) for one in given):
            yield "optimizer" if _takes_the_name(script, edge, given) else "learning rate"


def _is_of_a_package(script: Script, made: cst.Call) -> bool:
    if any(True for _ in called(script.facts, made)):
        return False
    names = script.names(made.func)
    return bool(names) and not any(name.partition(".")[0] in KNOWN for name in names)


def _may_be_optimizer(script: Script, node: cst.BaseExpression, depth: int) -> bool:
    held = script.instances(node)
    if any(one.role == "optimizer" for one in held):
        return True
    return "optimizer" in _kinds_of_unseen(script, node, depth - 1)


def _takes_the_name(script: Script, edge: FlowEdge, given: list[cst.BaseExpression]) -> bool:
    read = {x for one in given for x in script.flow.locations(one, script.owners[one])}
    return not read.isdisjoint(edge.targets)
