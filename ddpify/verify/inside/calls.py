"""How often training was changed otherwise than by an optimizer's step."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch.optim import lr_scheduler

from ddpify.verify.inside.patching import replace

counted: Counter[str] = Counter()
"""Calls so far, by name. Equal on all ranks of a right script."""


def install() -> None:
    """Count the calls of schedulers, ``zero_grad``, ``load_state_dict`` and scalers."""
    _count(torch.optim.Optimizer, "zero_grad")
    _count(torch.optim.Optimizer, "load_state_dict")
    _count(torch.nn.Module, "zero_grad")
    _count(torch.nn.Module, "load_state_dict")
    _count(torch.amp.GradScaler, "update")
    for scheduler in (lr_scheduler.LRScheduler, lr_scheduler.ReduceLROnPlateau):
        _count(scheduler, "step")


def _count(owner: Any, name: str) -> None:
    real = getattr(owner, name)
    public = f"{owner.__name__}.{name}"

    def call(*args: Any, **kwargs: Any) -> Any:
        counted[public] += 1
        return real(*args, **kwargs)

    call.__name__ = name
    replace(owner, name, call)
