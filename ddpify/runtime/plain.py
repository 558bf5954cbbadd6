"""Sharded models as the plain ones that they were, for the time of a copy."""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import nn

from ddpify.runtime.dtensor import is_dtensor
from ddpify.runtime.units import ShardedModule, Sharding

# The package of this module, or the module itself where the package is bundled in one.
_OWN_HOOKS = ("torch.distributed.", __name__.rpartition(".")[0] or __name__)

Replacements = dict[torch.Tensor, nn.Parameter]


@contextlib.contextmanager
def unsharded(sharding: Sharding, parameters: Replacements) -> Iterator[None]:
    """Let the model's modules be plain ones, with other parameters, while the block runs."""
    sharding.reshard()
    kept = [(module, type(module), dict(vars(module))) for module in sharding.model.modules()]
    try:
        for module, _, state in kept:
            _become_plain(module, state, sharding.added.get(module, set()), parameters)
        yield
    finally:
        for module, kind, state in kept:
            module.__class__ = kind
            vars(module).clear()
            vars(module).update(state)


def _become_plain(
    module: nn.Module, state: dict[str, Any], added: set[str], parameters: Replacements
) -> None:
    if isinstance(module, ShardedModule):
        module.__class__ = cast(Any, module.ddpify_class)
    vars(module).clear()
    for name, value in state.items():
        if name not in added:
            vars(module)[name] = _plain_value(name, value, parameters)


def _plain_value(name: str, value: Any, parameters: Replacements) -> Any:
    """An attribute of a module, without the hooks of FSDP and with other parameters."""
    if isinstance(value, dict) and name.endswith("_hooks"):
        return type(value)((key, hook) for key, hook in value.items() if not _is_own(hook))
    if isinstance(value, dict) and name == "_parameters":
        return type(value)((key, parameters.get(p, p)) for key, p in value.items())
    if isinstance(value, list) and any(is_dtensor(item) for item in value):
        return [parameters.get(item, item) for item in value]  # recurrent layers list their weights
    return value


def _is_own(hook: Any) -> bool:
    """Whether a hook is FSDP's or of this helper."""
    hook = getattr(hook, "hook", hook)  # torch wraps some that it stores
    while isinstance(hook, functools.partial):
        hook = hook.func
    return str(getattr(hook, "__module__", "")).startswith(_OWN_HOOKS)
