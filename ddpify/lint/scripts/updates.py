"""Calls that change what is trained: steps of optimizers, scalers and schedules."""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.values import Class, Instance

_SCHEDULES = "torch.optim.lr_scheduler."


def updated(script: Script, call: cst.Call) -> set[str]:
    """What a method call may update: "optimizer", "learning rate" or "loss scale"."""
    if not isinstance(call.func, cst.Attribute):
        return set()
    method = call.func.attr.value
    kinds = {_kind(one, method) for one in script.instances(call.func.value)}
    return {one for one in kinds if one is not None}


def _kind(one: Instance, method: str) -> str | None:
    known = one.type.library_bases() if isinstance(one.type, Class) else [one.type]
    if one.role == "optimizer" and method in ("step", "zero_grad"):
        return "optimizer"
    if method == "step" and any(name.startswith(_SCHEDULES) for name in known):
        return "learning rate"
    if any(name.endswith("amp.GradScaler") for name in known) and method in ("step", "update"):
        return "optimizer" if method == "step" else "loss scale"
    return None
