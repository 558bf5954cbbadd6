"""Optimizer states under the names of parameters, which no number of ranks changes."""

from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer


def named_state(optimizer: Optimizer, model: nn.Module) -> dict[str, Any]:
    """The state of each parameter by its name in the model, and the groups with such names."""
    names: dict[torch.Tensor, str] = {p: name for name, p in model.named_parameters()}
    groups = [
        {**group, "params": [names[parameter] for parameter in group["params"]]}
        for group in optimizer.param_groups
    ]
    states = {names[parameter]: dict(state) for parameter, state in optimizer.state.items()}
    return {"state": states, "groups": groups}


def empty_state(
    optimizer: Optimizer, model: nn.Module, prefix: str, contents: dict[str, Any]
) -> dict[str, Any]:
    """Room for a named state that a checkpoint holds, divided as the parameters are now.

    contents: by key, ``prefix`` before the parameter's and the state's name, what the checkpoint
    says of its tensors (``size``, ``properties.dtype``) and other values.
    """
    states: dict[str, dict[str, Any]] = {}
    for name, parameter in model.named_parameters():
        own = f"{prefix}{name}."
        found = {key[len(own) :]: held for key, held in contents.items() if key.startswith(own)}
        room = {key: _room(held, parameter) for key, held in found.items() if "." not in key}
        if room:
            states[name] = room
    return {"state": states, "groups": named_state(optimizer, model)["groups"]}


def load_named_state(optimizer: Optimizer, model: nn.Module, state: dict[str, Any]) -> None:
    """Give an optimizer a named state; of its groups, all but their parameters."""
    named = named_state(optimizer, model)["groups"]
    numbers: dict[str, int] = {}
    groups = []
    for own, saved in zip(named, state["groups"], strict=True):
        for name in own["params"]:
            numbers[name] = len(numbers)
        groups.append({**saved, "params": [numbers[name] for name in own["params"]]})
    states = {numbers[name]: held for name, held in state["state"].items() if name in numbers}
    optimizer.load_state_dict({"state": states, "param_groups": groups})


def _room(held: Any, parameter: torch.Tensor) -> Any:
    if not hasattr(held, "size"):
        return None
    if held.size == parameter.shape and parameter.dim():
        return torch.zeros_like(parameter, dtype=held.properties.dtype, requires_grad=False)
    return torch.zeros(held.size, dtype=held.properties.dtype)
