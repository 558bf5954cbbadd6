"""From something that holds sharded tensors to the same with whole ones, on rank 0."""

import copy
import pickle
from typing import Any

import torch
from torch import nn

from ddpify.runtime.dtensor import full_tensor, is_dtensor
from ddpify.runtime.plain import Replacements, unsharded
from ddpify.runtime.process import is_main
from ddpify.runtime.units import SHARDING, Sharding


class Nowhere:
    """A file that forgets what is written to it."""

    def write(self, data: Any) -> int:
        """Take bytes and drop them."""
        return len(data)


class Finder(pickle.Pickler):
    """Finds the tensors and sharded models that a pickle of an object would hold, in order.

    Attributes:
        parts: The DTensors.
        whole: The other tensors.
        models: The sharded models; their parameters are not among the tensors.
    """

    def __init__(self) -> None:
        super().__init__(Nowhere(), protocol=4)
        self.parts: list[Any] = []
        self.whole: list[torch.Tensor] = []
        self.models: list[nn.Module] = []

    def reducer_override(self, obj: Any) -> Any:
        """Note a tensor or model, without looking into it."""
        if is_dtensor(obj):
            self.parts.append(obj)
        elif isinstance(obj, torch.Tensor):
            self.whole.append(obj)
        elif isinstance(obj, nn.Module) and SHARDING in vars(obj):
            self.models.append(obj)
        else:
            return NotImplemented
        return str, ()


def gathered(obj: Any) -> Any:
    """``obj`` with whole, plain tensors on the CPU in place of sharded ones.

    obj: what ``torch.save`` takes: tensors, models, optimizer states in any containers. Returns
    a copy that shares its other tensors with ``obj`` on rank 0, None on other ranks; ``obj``
    itself, on every rank, if it holds nothing sharded. A collective.
    """
    found = Finder()
    found.dump(obj)
    if not found.parts and not found.models:
        return obj
    # Copies of what is not sharded would be a waste, and would part tensors that share memory.
    memo: dict[int, Any] = {id(tensor): tensor for tensor in found.whole}
    shared: dict[Any, Any] = {}
    for part in found.parts:
        memo[id(part)] = _like(part, _once(shared, part))
    for model in found.models:
        memo[id(model)] = _full_model(model, shared)
    return copy.deepcopy(obj, memo) if is_main() else None


def _once(shared: dict[Any, Any], part: Any) -> Any:
    """The whole of a part; of two that are one memory, as tied weights are, the same tensor."""
    whole = full_tensor(part.detach())
    local = part.to_local()
    key = (local.data_ptr(), part.shape, part.dtype)
    return shared.setdefault(key, whole.cpu()) if is_main() else None


def _like(part: Any, whole: Any) -> Any:
    """A parameter where the part is one."""
    is_parameter = isinstance(part, nn.Parameter) and whole is not None
    return nn.Parameter(whole, requires_grad=part.requires_grad) if is_parameter else whole


def _full_model(model: nn.Module, shared: dict[Any, Any]) -> Any:
    """On rank 0, a plain copy of a sharded model with whole parameters."""
    sharding: Sharding = vars(model)[SHARDING]
    sharding.reshard()
    parts = [p for p in model.parameters() if is_dtensor(p)]
    wholes = [_once(shared, part) for part in parts]
    if not is_main():
        return None
    kept: Replacements = {
        part: _like(part, whole) for part, whole in zip(parts, wholes, strict=True)
    }
    others = [*kept.values(), *model.buffers(), *model.parameters()]
    with unsharded(sharding, kept):
        return copy.deepcopy(model, {id(tensor): tensor for tensor in others})
