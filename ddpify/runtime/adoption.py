"""What a sharded model takes over from scripts that know whole tensors: states, optimizers."""

import weakref
from typing import Any, cast

import torch
from torch import nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

from ddpify.runtime.dtensor import is_dtensor, like_shard

_replaced: dict[int, "weakref.ref[torch.Tensor]"] = {}
_watching: list[Any] = []


def load_full_values(module: nn.Module) -> None:
    """Let ``load_state_dict`` of a module with sharded parameters accept whole tensors too."""
    if any(is_dtensor(parameter) for parameter in module._parameters.values()):
        cast(Any, module).register_load_state_dict_pre_hook(_shard_loaded)


def _shard_loaded(module: nn.Module, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
    for name, parameter in module._parameters.items():
        value: Any = state_dict.get(prefix + name)
        if _is_full(value, parameter):
            state_dict[prefix + name] = like_shard(value, parameter)


def watch_optimizers(replaced: list[nn.Parameter]) -> None:
    """From now on, shard the states that optimizers load, and refuse those with old parameters.

    replaced: parameters that sharding put others in the place of.
    """
    _replaced.update({id(parameter): weakref.ref(parameter) for parameter in replaced})
    if not _watching:
        _watching.append(register_optimizer_step_pre_hook(_before_step))


def _before_step(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if _replaced:
        _refuse_old(parameters)
    with_state = (p for p in parameters if is_dtensor(p) and optimizer.state.get(p))
    first = next(with_state, None)
    if first is not None and any(_is_full(v, first) for v in optimizer.state[first].values()):
        _shard_states(optimizer)


def _refuse_old(parameters: list[nn.Parameter]) -> None:
    for key in [key for key, alive in _replaced.items() if alive() is None]:
        del _replaced[key]
    for parameter in parameters:
        kept = _replaced.get(id(parameter))
        if kept is not None and kept() is parameter:
            raise RuntimeError(
                "this optimizer was made before the model was sharded, and would step parameters "
                "that the model does not use any more; make it after dd.wrap()"
            )


def _shard_states(optimizer: Optimizer) -> None:
    """Cut the whole tensors that ``load_state_dict`` put there to the ranks' parts."""
    for parameter, state in optimizer.state.items():
        for name, value in state.items():
            if _is_full(value, parameter):
                state[name] = like_shard(value, parameter)


def divide_states(optimizer: Optimizer, state_dict: dict[str, Any]) -> None:
    """Cut the whole tensors in a state dict, before ``optimizer`` loads it, to the ranks' parts."""
    stored = [key for group in state_dict["param_groups"] for key in group["params"]]
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for key, parameter in zip(stored, parameters, strict=False):  # load_state_dict names a mismatch
        state = state_dict["state"].get(key, {})
        for name, value in state.items():
            if _is_full(value, parameter):
                state[name] = like_shard(value, parameter)


def _is_full(value: Any, parameter: Any) -> bool:
    """Whether a plain tensor stands where a part of it belongs."""
    return (
        is_dtensor(parameter)
        and isinstance(value, torch.Tensor)
        and not is_dtensor(value)
        and value.shape == parameter.shape
    )
