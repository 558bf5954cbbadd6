"""What the models hold that a process has built, and the states that their optimizers will."""

from __future__ import annotations

import copy
import gc
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from ddpify.runtime.blocks import repeated_blocks
from ddpify.runtime.memory import footprint
from ddpify.sizing.peak import Peak


def measured() -> dict[str, Any]:
    """Models that optimizers step, and what they hold: see ``measuring.Measurement``."""
    alive = [item for item in gc.get_objects() if isinstance(item, (nn.Module, Optimizer))]
    optimizers = [item for item in alive if isinstance(item, Optimizer)]
    ratios: dict[nn.Parameter, float] = {}
    guessed, temporaries = [], 0
    for optimizer in optimizers:
        try:
            ratios |= state_ratios(optimizer)
            temporaries = max(temporaries, step_temporaries(optimizer))
        except Exception as error:  # any optimizer may be met here
            guessed.append(f"{type(optimizer).__name__} ({type(error).__name__}: {error})")
            ratios |= dict.fromkeys(_parameters(optimizer), 2.0)
            temporaries = max(temporaries, _size(_parameters(optimizer)))
    models = _trained_roots((m for m in alive if isinstance(m, nn.Module)), ratios)
    pieces, buffers, units = [], 0, 0
    for model in models:
        blocks = repeated_blocks(model)
        held = footprint(model, blocks, ratios)
        buffers += held.buffers
        for piece in held.pieces:
            unit = piece.unit + units if piece.unit else 0
            pieces.append([piece.rows, piece.row_bytes, unit, piece.trained, piece.states])
        units += len(blocks)
    return {
        "pieces": pieces,
        "buffers": buffers,
        "models": [type(model).__name__ for model in models],
        "optimizers": [type(optimizer).__name__ for optimizer in optimizers],
        "guessed": guessed,
        "temporaries": temporaries,
        "device_memory": _device_memory(),
    }


def state_ratios(optimizer: Optimizer) -> dict[nn.Parameter, float]:
    """Bytes of each parameter's states as a multiple of its own, from a step without memory."""
    twin = _without_memory(optimizer, foreach=False)
    twin.step()
    return {
        parameter: _size(twin.state[own].values()) / max(_size([parameter]), 1)
        for parameter, own in zip(_parameters(optimizer), _parameters(twin), strict=True)
    }


def step_temporaries(optimizer: Optimizer) -> int:
    """Bytes that a step on a GPU makes for itself at its peak, beside the optimizer's states.

    Where the script does not say otherwise, it steps all parameters at once there (``foreach``).
    """
    if any(group.get("fused") for group in optimizer.param_groups):
        return 0
    told = any(group.get("foreach") is False for group in optimizer.param_groups)
    twin = _without_memory(optimizer, foreach=not told)
    twin.step()
    peak = Peak()
    with peak:
        peak.start(_parameters(twin))
        twin.step()
    return peak.most or 0


def _without_memory(optimizer: Optimizer, *, foreach: bool) -> Any:
    """The optimizer without states, of parameters and gradients that have shapes alone."""
    twin: Any = copy.copy(optimizer)
    twin.state = defaultdict(dict)
    twin.param_groups = [
        {
            **group,
            "params": [_on_meta(p) for p in group["params"]],
            **({"foreach": foreach} if "foreach" in group else {}),
            "fused": None,
        }
        for group in optimizer.param_groups
    ]
    return twin


def _on_meta(parameter: torch.Tensor) -> nn.Parameter:
    made = nn.Parameter(torch.empty_like(parameter, device="meta"), parameter.requires_grad)
    made.grad = torch.empty_like(made) if parameter.requires_grad else None
    return made


def _parameters(optimizer: Optimizer) -> list[nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _size(values: Iterable[Any]) -> int:
    """Bytes of the tensors among some values, scalars (counts of steps) aside."""
    tensors = (value for value in values if isinstance(value, torch.Tensor) and value.dim())
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _trained_roots(modules: Iterable[nn.Module], ratios: dict[nn.Parameter, float]) -> list[Any]:
    """The whole models that hold a parameter of an optimizer."""
    every = list(modules)
    inner = {child for module in every for child in module.children()}
    return [m for m in every if m not in inner and any(p in ratios for p in m.parameters())]


def _device_memory() -> int | None:
    if not torch.cuda.is_available():
        return None
    return int(torch.cuda.mem_get_info()[1])
