"""Calls that change what is trained: steps of optimizers, scalers and schedules."""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.values import Instance


def updated(script: Script, call: cst.Call) -> set[str]:
    """What a method call may update: "optimizer", "learning rate" or "loss scale"."""
    if not isinstance(call.func, cst.Attribute):
        return set()
    method = call.func.attr.value
    kinds = {_kind(one, method) for one in script.instances(call.func.value)}
    return {one for one in kinds if one is not None}


def _kind(one: Instance, method: str) -> str | None:
    name = one.type if isinstance(one.type, str) else ""
    if one.role == "optimizer" and method in ("step", "zero_grad"):
        return "optimizer"
    if name.startswith("torch.optim.lr_scheduler.") and method == "step":
        return "learning rate"
    if name.endswith("amp.GradScaler") and method in ("step", "update"):
        return "optimizer" if method == "step" else "loss scale"
    return None
