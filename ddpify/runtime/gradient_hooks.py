"""Hooks on gradients of parameters, which run before DistributedDataParallel averages those."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from ddpify.runtime.process import world_size
from ddpify.runtime.reduce import sum_scaled

Hook = Callable[[torch.Tensor], "torch.Tensor | None"]


def gradient_hook(hook: Hook) -> Hook:
    """A hook for ``parameter.register_hook`` that is called with the gradient of the global batch.

    hook: called on every rank with the mean of the ranks' gradients, which is that of one process;
    what it returns, or else that mean, is the parameter's gradient. Its calls are collectives. At
    one process this returns ``hook``.
    """
    if world_size() == 1:
        return hook

    @functools.wraps(hook)
    def averaged(gradient: torch.Tensor) -> torch.Tensor:
        whole = sum_scaled(gradient, 1 / world_size())
        made = hook(whole)
        return whole if made is None else made

    return averaged
