"""What autograd keeps for backward in one step of the script: its activations."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn


class _Held:
    """A tensor that autograd has saved; it lives as long as the graph does."""

    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


class Activations:
    """Counts what is saved for backward from :meth:`watch` on."""

    def __init__(self) -> None:
        self._held: weakref.WeakSet[_Held] = weakref.WeakSet()

    def watch(self) -> None:
        """Note what autograd saves, for the rest of the process."""

        def pack(tensor: torch.Tensor) -> _Held:
            held = _Held(tensor)
            self._held.add(held)
            return held

        unpack: Callable[[Any], Any] = lambda held: held.tensor  # noqa: E731
        hooks: Any = torch.autograd.graph.saved_tensors_hooks(pack, unpack)
        hooks.__enter__()

    def bytes(self, models: Iterable[nn.Module]) -> int:
        """Bytes of what is saved now, each storage once, without what the models hold anyway."""
        own = {
            tensor.untyped_storage().data_ptr()
            for model in models
            for tensor in (*model.parameters(), *model.buffers())
        }
        storages = (held.tensor.untyped_storage() for held in self._held)
        sizes = {storage.data_ptr(): storage.nbytes() for storage in storages}
        return sum(size for place, size in sizes.items() if place not in own)
