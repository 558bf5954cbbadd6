"""Places that set the values of a wrapped model's parameters, and those that send them to all."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.understood import Wrap
from ddpify.understanding.libraries.object_kinds import is_model
from ddpify.understanding.operators.in_place import changes_values
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import argument
from ddpify.understanding.values import Instance, Params, deep_atoms

_SENDERS = {
    "torch.distributed.broadcast": "tensor",
    "torch.distributed._broadcast_coalesced": "tensors",
    "torch.distributed.broadcast_object_list": "object_list",
}
_INIT = "torch.nn.init."


def sets_parameters(script: Script, wraps: list[Wrap]) -> Iterator[cst.CSTNode]:
    """``p.data.mul_(2)``, ``p.data = x`` or ``nn.init.zeros_(p)`` of the models in wrappers."""
    owners = {wrap.wrapper for wrap in wraps}
    owners |= {part for wrap in wraps for model in wrap.held for part in script.layers(model)}
    for call in script.structure.all(cst.Call):
        changed = _changed_by(script, call)
        if changed is not None and _are_of(script, changed, owners):
            yield call
    for assign in script.structure.all(cst.Assign, cst.AugAssign):
        targets = assign.targets if isinstance(assign, cst.Assign) else [assign]
        if any(_is_data(one.target) and _are_of(script, one.target, owners) for one in targets):
            yield assign


def sends_parameters(script: Script) -> bool:
    """Whether a broadcast gets parameters of a model, or what is not known to be anything else."""
    for name, tensor in _SENDERS.items():
        for call in script.calls(name, everywhere=True):
            given = argument(call, tensor, 1 if name.endswith("coalesced") else 0)
            held = [*deep_atoms(script.value(given.value))] if given is not None else []
            if not held or any(map(_is_of_a_model, held)):
                return True
    return False


def _is_of_a_model(atom: object) -> bool:
    return isinstance(atom, Params) or (isinstance(atom, Instance) and is_model(atom))


def _changed_by(script: Script, call: cst.Call) -> cst.BaseExpression | None:
    """What a call changes in place."""
    if any(name.startswith(_INIT) for name in script.names(call.func)):
        return call.args[0].value if call.args else None
    if not isinstance(call.func, cst.Attribute):
        return None
    return call.func.value if changes_values(call.func.attr.value) else None


def _is_data(node: cst.CSTNode) -> bool:
    """``p.data`` and ``p.data[0]``."""
    inner = node.value if isinstance(node, cst.Subscript) else node
    return isinstance(inner, cst.Attribute) and inner.attr.value == "data"


def _are_of(script: Script, node: cst.BaseExpression, owners: set[Instance]) -> bool:
    """Whether an expression surely is of parameters of these models, not of their gradients."""
    named = (one.attr.value for one in walk(node) if isinstance(one, cst.Attribute))
    if "grad" in named:
        return False
    inner = node.value if isinstance(node, cst.Subscript) and _is_data(node) else node
    while _is_data(inner) and isinstance(inner, cst.Attribute):
        inner = inner.value
    atoms = script.value(inner).atoms
    return bool(atoms) and all(isinstance(a, Params) and a.owner in owners for a in atoms)
