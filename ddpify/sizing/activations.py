"""What autograd keeps for backward in one step of the script: its activations."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn


class _Held:
    """What autograd has saved of a tensor; it lives as long as the graph does.

    It has no graph of its own: an output that an operator saves would otherwise keep itself alive.
    """

    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor.detach()


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

    def bytes(
        self, held: Iterable[torch.Tensor], but: Callable[[torch.Tensor], bool] | None = None
    ) -> int:
        """Bytes of what is saved now, each storage once, without what models hold anyway.

        ``but``: whether a tensor is left out.
        """
        own = {_place(tensor) for tensor in held}
        saved = [one.tensor for one in self._held if but is None or not but(one.tensor)]
        sizes = {_place(tensor): tensor.untyped_storage().nbytes() for tensor in saved}
        return sum(size for place, size in sizes.items() if place not in own)


def alive_modules() -> list[nn.Module]:
    """All modules of this process."""
    return [item for item in gc.get_objects() if isinstance(item, nn.Module)]


def held_by(models: Iterable[nn.Module]) -> list[torch.Tensor]:
    """Parameters and buffers."""
    return [tensor for model in models for tensor in (*model.parameters(), *model.buffers())]


def _place(tensor: torch.Tensor) -> int:
    """The same for tensors that share memory; those without memory have a storage, too."""
    return int(tensor.untyped_storage()._cdata)
