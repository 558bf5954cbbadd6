"""Follow numbers through torch's functions, from batches to scalars and to Python's numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ddpify.verify.inside.equal_chance import EqualChance
from ddpify.verify.inside.origins import Origins, Provenance, merged
from ddpify.verify.inside.tracked import Watch, tracked

_VALUELESS = ("_like", "new_", "empty", "zeros", "ones", "full", "arange", "rand", "requires_grad")
"""Parts of the names of functions whose results do not depend on their arguments' values."""
_NUMBERS = (torch.Tensor.item, torch.Tensor.tolist)


class Following:
    """Told of each call of a torch function, with its result.

    Args:
        provenance: Where origins are kept.
    """

    def __init__(self, provenance: Provenance) -> None:
        self._provenance = provenance
        self._busy = False

    def called(self, func: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> Any:
        """``result``, or the same number with its origins."""
        if self._busy:
            return result
        self._busy = True
        try:
            with torch._C.DisableTorchFunction():
                return self._follow(func, args, kwargs, result)
        finally:
            self._busy = False

    def batch(self, found: Any, content: float) -> None:
        """A loader yielded ``found``."""
        tensors = list(_tensors(found))
        if tensors:
            origins = self._provenance.new(content)
            for tensor in tensors:
                self._provenance.mark(tensor, origins)

    def converted(self, number: Any, value: Any) -> Any:
        """``number``, which the script made of ``value`` by ``float`` or ``int``."""
        origins = self._provenance.of(value)
        return (
            self._number(number, origins)
            if type(value) is torch.Tensor
            else tracked(number, origins)
        )

    def _follow(self, func: Any, args: Any, kwargs: Any, result: Any) -> Any:
        if isinstance(result, (bool, int, float, str)) or type(result) is list:
            return self._left(func, args, result)
        if type(result) is torch.Tensor:
            self._made(func, args, kwargs, result)
        elif type(result) is tuple:
            for part in result:
                if type(part) is torch.Tensor:
                    self._made(func, args, kwargs, part)
        return result

    def _made(self, func: Any, args: Any, kwargs: Any, result: torch.Tensor) -> None:
        name = getattr(func, "__name__", "")
        if any(part in name for part in _VALUELESS) or name in ("__get__", "grad"):
            return
        parents = merged([self._provenance.of(args), self._provenance.of(kwargs or {})])
        scalar = result.ndim == 0 and not result.is_complex()
        if not scalar or result.device.type == "meta" or not (parents or result.requires_grad):
            self._provenance.mark(result, parents)
            return
        origins = self._provenance.new(_value(result), parents, name)
        self._provenance.mark(result, origins)

    def _left(self, func: Any, args: Any, result: Any) -> Any:
        """A tensor's number is handed to Python."""
        tensor = args[0] if args and type(args[0]) is torch.Tensor else None
        if tensor is None or tensor.numel() > 64 or isinstance(result, str):
            if isinstance(result, str) and tensor is not None and tensor.ndim == 0:
                Watch.text(result, self._provenance.of(tensor))
            return result
        parents = self._provenance.of(tensor)
        if func is torch.Tensor.__bool__:
            Watch.decision(result, parents, None)
        if func not in _NUMBERS:
            return result
        if isinstance(result, list):
            if not parents:
                return result
            return [self._number(item, parents) for item in result]
        if not parents and not self._provenance.asked_by_script():
            return result
        return self._number(result, parents)

    def _number(self, value: Any, parents: Origins) -> Any:
        if type(value) not in (int, float):
            return value
        return tracked(value, self._provenance.new(float(value), parents))


class FollowingMode(TorchFunctionMode):
    """The function mode that tells ``following`` of each call, and ``chance`` of draws."""

    def __init__(self, following: Following, chance: EqualChance) -> None:
        super().__init__()
        self._following, self._chance = following, chance

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = self._chance.called(func, args, kwargs or {})
        return self._following.called(func, args, kwargs, result)


def _value(tensor: torch.Tensor) -> float:
    return float(tensor.detach())


def _tensors(value: Any) -> Any:
    if type(value) is torch.Tensor:
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
