"""The memory of what operations make, while it lives, and the most that there was at a time."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only


class Peak(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts each storage that an operation makes on the models' device, until it is freed.

    What an operation allocates for itself alone, such as cuDNN's workspace, is not seen.

    Attributes:
        most: The largest number of bytes since the last :meth:`start`; None before the first.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.most: int | None = None
        self._now = 0
        self._sizes: dict[int, int] = {}
        self._own: set[int] = set()
        self._device = "cpu"

    def start(self, held: Iterable[torch.Tensor]) -> None:
        """Begin, or begin anew. ``held``: tensors that do not count, such as parameters."""
        tensors = list(held)
        self._own = {tensor.untyped_storage()._cdata for tensor in tensors}
        self._device = tensors[0].device.type if tensors else "cpu"
        self.most = self._now

    def add(self, tensor: torch.Tensor) -> torch.Tensor:
        """Count a tensor that no operation here has made; the same tensor."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if tensor.device.type == self._device and key not in self._own and key not in self._sizes:
            self._sizes[key] = storage.nbytes()
            self._now += storage.nbytes()
            self.most = max(self.most or 0, self._now)
            weakref.finalize(storage, self._freed, key)
        return tensor

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and count what it has made; results may be views of what was there."""
        tree_map_only(torch.Tensor, self._known, (args, kwargs or {}))
        return tree_map_only(torch.Tensor, self.add, func(*args, **(kwargs or {})))

    def sees(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor's memory is counted."""
        return tensor.untyped_storage()._cdata in self._sizes

    def _known(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor that an operation is given, and that was there before: it does not count."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._own and key not in self._sizes:
            self._own.add(key)
            weakref.finalize(storage, self._own.discard, key)
        return tensor

    def _freed(self, key: int) -> None:
        self._now -= self._sizes.pop(key)
