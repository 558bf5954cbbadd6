"""Models whose parameters, gradients and optimizer states are divided among the ranks (FSDP2).

A sharded model is the object that it was, as under DistributedDataParallel: ``fully_shard``
changes modules in place, and here their classes get back their names, their copies become
possible, and their layers can be called in any way.
"""

import copy
import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from ddpify.runtime.accumulation import accumulation
from ddpify.runtime.adoption import load_full_values, watch_optimizers
from ddpify.runtime.dtensor import full_tensors, is_dtensor
from ddpify.runtime.dtensor_dispatch import read_as_full
from ddpify.runtime.inputs import mapped
from ddpify.runtime.plain import unsharded
from ddpify.runtime.process import world_size
from ddpify.runtime.replication import AveragedGradients
from ddpify.runtime.units import SHARDING, ShardedModule, Sharding


def fsdp_options(place: torch.device, dtype: torch.dtype | None = None) -> dict[str, Any]:
    """``fully_shard``'s options for a model on ``place``.

    dtype: that of gathered parameters and activations; gradients are reduced in
    float32. Raises RuntimeError before torch 2.7, whose FSDP2 lacks what is used here.
    """
    from torch.distributed.fsdp import MixedPrecisionPolicy

    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 7):
        raise RuntimeError(
            f'strategy="fsdp" needs torch 2.7 or later (this is {torch.__version__})'
        )

    # The model's own unit too: what a script calls or reads between forward and backward is then
    # always in parts, which layers called past the forward go by.
    options: dict[str, Any] = {"mesh": _mesh(place.type), "reshard_after_forward": True}
    if dtype is not None:
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
    return options


def shard_model(sharding: Sharding, fill: Callable[[nn.Module], None] | None = None) -> nn.Module:
    """Shard a model in place, by its blocks and then the rest, and return it.

    Its parameters are the same on all ranks, or on the meta device, where ``fill`` gives them
    values after the sharding. A collective.
    """
    model = sharding.model
    _check_layers(model)
    before = {module: set(vars(module)) for module in model.modules()}
    replaced = list(model.parameters())
    _shard_units(sharding)
    units = sharding.unit_of()
    for module in model.modules():
        _make_enterable(units[module], module, sharding.dtype)
        load_full_values(module)
    if fill is not None:
        fill(model)
    # Which unit is the outermost is settled now: else it would be the one that is called first.
    cast(Any, model)._get_fsdp_state()._lazy_init()
    model.__dict__[SHARDING] = sharding
    sharding.added = {m: set(vars(m)) - names for m, names in before.items()}
    new = set(model.parameters())
    for parameter in new:
        _divide_gradients(parameter)
    read_as_full()
    accumulation.sharded.add(model)
    watch_optimizers([parameter for parameter in replaced if parameter not in new])
    return model


@functools.cache
def _mesh(kind: str) -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh(kind, (world_size(),))


def _check_layers(model: nn.Module) -> None:
    for name, module in model.named_modules():
        if getattr(module, "sparse", False) and isinstance(module, nn.Embedding | nn.EmbeddingBag):
            raise RuntimeError(
                f"{name}: FSDP has no sparse gradients; leave out sparse=True, or use DDP"
            )


def _shard_units(sharding: Sharding) -> None:
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    whole = _kept_whole(sharding)
    kept: dict[str, Any] = {"ignored_params": set(whole)} if whole else {}
    AveragedGradients([p for p in whole if p.requires_grad])
    for unit in sharding.units:
        plain: Any = type(unit)
        if sharding.prepare is not None:
            sharding.prepare(unit)
        for parameter in unit.parameters():
            if not is_dtensor(parameter):
                # In memory, not in value: FSDP cuts rows out of it.
                parameter.data = parameter.data.contiguous()
        fully_shard(unit, **_options_of(unit, sharding), **kept)
        unit.__class__ = _sharded_class(cast(Any, type(unit)), plain, unit is sharding.model)
        register_fsdp_forward_method(unit, "ddpify_enter")


def _kept_whole(sharding: Sharding) -> list[nn.Parameter]:
    """Parameters that every rank holds, in the model's order, which is that of all ranks.

    Scalars, which have no rows to divide; in a narrower dtype also those of BatchNorm, which
    computes with its running statistics, and they are wide.
    """
    normalising = sharding.dtype is not None
    norms = [m for m in sharding.model.modules() if normalising and isinstance(m, _BatchNorm)]
    inside = {p for norm in norms for p in norm.parameters()}
    return [p for p in sharding.model.parameters() if p.dim() == 0 or p in inside]


def _options_of(unit: nn.Module, sharding: Sharding) -> dict[str, Any]:
    """``fully_shard``'s options for one unit.

    In a narrower dtype the whole model gives float32, so that loss functions get it.
    """
    policy = sharding.options.get("mp_policy")
    if policy is None or unit is not sharding.model:
        return sharding.options
    return {**sharding.options, "mp_policy": replace(policy, output_dtype=torch.float32)}


@functools.cache
def _sharded_class(fsdp: Any, plain: Any, whole: bool) -> Any:
    attributes: dict[str, Any] = {
        "__module__": plain.__module__,
        "__qualname__": plain.__qualname__,
        "__doc__": plain.__doc__,
        "__deepcopy__": _sharded_copy if whole else _no_copy,
        "ddpify_class": plain,
    }
    if whole:

        @functools.wraps(plain.forward)
        def forward(self: nn.Module, *inputs: Any, **kwargs: Any) -> Any:
            return self.__dict__[SHARDING].run(*inputs, **kwargs)

        attributes["forward"] = forward
    return type(plain.__name__, (ShardedModule, fsdp), attributes)


def _make_enterable(unit: Any, module: nn.Module, dtype: torch.dtype | None) -> None:
    """Let a layer be called past the forward of its unit: that gathers the unit for it.

    FSDP itself gathers parameters, and casts what is computed with them, in a unit's forward alone.
    """
    own = next((name for name, p in module._parameters.items() if is_dtensor(p)), None)
    if own is None or module is unit:
        return
    plain = module.forward

    def narrowed(x: torch.Tensor) -> torch.Tensor:
        return x if dtype is None or not x.is_floating_point() else x.to(dtype)

    @functools.wraps(plain)
    def forward(*inputs: Any, **kwargs: Any) -> Any:
        inputs, kwargs = mapped(inputs, narrowed), mapped(kwargs, narrowed)
        if not is_dtensor(module._parameters[own]):
            return plain(*inputs, **kwargs)
        return unit.ddpify_enter(plain, *full_tensors(inputs), **full_tensors(kwargs))

    module.__dict__["forward"] = forward


def _divide_gradients(parameter: Any) -> None:
    if is_dtensor(parameter) and parameter.requires_grad:
        hook = functools.partial(_laid_out_as, cast(Any, parameter).placements)
        cast(Any, parameter).register_hook(hook)


def _laid_out_as(placements: Any, gradient: Any) -> Any:
    """A gradient that reaches a parameter past FSDP (a penalty's), divided as it is."""
    return gradient.redistribute(placements=placements)


def _no_copy(self: nn.Module, memo: dict[int, Any]) -> nn.Module:
    raise RuntimeError("copy the whole model: a block of a sharded one has no copy of its own")


def _sharded_copy(self: nn.Module, memo: dict[int, Any]) -> nn.Module:
    """``copy.deepcopy`` of a sharded model: sharded alike, from each rank's own parts."""
    sharding: Sharding = self.__dict__[SHARDING]
    sharding.reshard()
    parts = [parameter for parameter in self.parameters() if is_dtensor(parameter)]
    with unsharded(sharding, {part: _on_meta(part) for part in parts}):
        copied: nn.Module = copy.deepcopy(self, memo)
    blocks = [memo[id(block)] for block in sharding.blocks]
    return shard_model(
        replace(sharding, model=copied, blocks=blocks, prepare=None, added={}),
        functools.partial(_fill_with, parts),
    )


def _on_meta(parameter: torch.Tensor) -> nn.Parameter:
    empty = torch.empty(parameter.shape, dtype=parameter.dtype, device="meta")
    return nn.Parameter(empty, requires_grad=parameter.requires_grad)


@torch.no_grad()
def _fill_with(parts: list[Any], model: nn.Module) -> None:
    """Give a sharded model on the meta device these values."""
    device = parts[0].device
    cast(Any, model)._apply(lambda t: torch.empty_like(t, device=device) if t.is_meta else t)
    new = [parameter for parameter in model.parameters() if is_dtensor(parameter)]
    for own, part in zip(new, parts, strict=True):
        cast(Any, own).to_local().copy_(part.to_local())
