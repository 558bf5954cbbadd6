"""Layers that have no weights before their first forward: every rank then gets rank 0's."""

import functools
from collections.abc import Iterator
from itertools import chain
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import is_lazy

from ddpify.runtime.process import kept
from ddpify.runtime.rng import shared_torch_stream


def has_lazy_layers(model: nn.Module) -> bool:
    """Whether layers of a model wait for their first forward."""
    return any(True for _ in _lazy_layers(model))


def share_lazy_layers(model: nn.Module) -> None:
    """Let layers that wait draw their weights from the shared stream, and take rank 0's."""
    for layer in _lazy_layers(model):
        layer.initialize_parameters = functools.partial(_initialise, layer)


def _lazy_layers(model: nn.Module) -> Iterator[Any]:
    for layer in model.modules():
        if isinstance(layer, LazyModuleMixin) and layer.has_uninitialized_params():
            yield layer


def _initialise(layer: Any, *inputs: Any, **kwargs: Any) -> None:
    """Give a layer its weights, as its inputs want them. A collective."""
    del layer.initialize_parameters  # its class's again
    with shared_torch_stream():
        layer.initialize_parameters(*inputs, **kwargs)
    for tensor in chain(layer.parameters(recurse=False), layer.buffers(recurse=False)):
        if not is_lazy(tensor):
            whole = kept(tensor.detach().contiguous())
            dist.broadcast(whole, src=0)
            with torch.no_grad():
                tensor.copy_(whole)
