"""What is known of the models that hold an optimizer's parameters."""

from __future__ import annotations

import gc

import torch
from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm


def survey(
    parameters: list[torch.Tensor],
) -> tuple[dict[int, str], bool, dict[str, torch.Tensor]]:
    """Of all models alive: their parameters' names, whether one normalises each rank's batch alone,
    and the buffers of those that hold one of ``parameters``."""
    modules = [item for item in gc.get_objects() if issubclass(type(item), torch.nn.Module)]
    inner = {id(child) for module in modules for child in module.children()}
    roots = [module for module in modules if id(module) not in inner]
    optimized = set(map(id, parameters))
    names: dict[int, str] = {}
    buffers: dict[str, torch.Tensor] = {}
    for root in roots:
        held = {id(parameter): _plain(name) for name, parameter in root.named_parameters()}
        names = {**held, **names}
        if optimized & held.keys():
            buffers |= {_plain(name): buffer for name, buffer in root.named_buffers()}
    plain = BatchNorm.forward
    return names, any(getattr(type(item), "forward", None) is plain for item in modules), buffers


def _plain(name: str) -> str:
    """``name`` without the prefixes of wrappers."""
    return ".".join(part for part in name.split(".") if part not in ("module", "_orig_mod")) or name
