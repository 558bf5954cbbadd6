"""The function mode under which a script runs: double precision, CUDA on the CPU, work counted."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ddpify.verify.inside.patching import UNINDEXED, current_gpu, devices, faked

NARROW = frozenset({torch.float32, torch.float16, torch.bfloat16})
_TYPE_NAMES = {
    f"torch.{device}{kind}Tensor": "torch.DoubleTensor"
    for device in ("", "cuda.")
    for kind in ("Float", "Half", "BFloat16")
}
_WIDENED: dict[Any, Any] = {
    torch.Tensor.float: torch.Tensor.double,
    torch.Tensor.half: torch.Tensor.double,
    torch.Tensor.bfloat16: torch.Tensor.double,
}
_TRANSLATED = (torch.dtype, str, torch.device)
_NORMAL = torch.Tensor.normal_  # the real one, whatever is patched later
_IS_CUDA = torch.Tensor.is_cuda.__get__  # type: ignore[attr-defined]

_MODES = tuple(
    str(Path(__file__).with_name(name)) for name in ("world.py", "following.py", "equal_chance.py")
)
"""Files whose frames lie between a call of torch and its translation."""


class World(TorchFunctionMode):
    """Translate every torch call.

    * Narrow floating types become float64: two right runs then agree to about 1e-10, and rounding
      explains no difference. Tensors that come in narrow (from files) are widened where they are
      used.
    * With ``cuda``, CUDA devices become the CPU.
    * ``work`` counts the elements that meet a parameter in what a backward may go through: a
      measure of how much of the training this rank does that depends on no layer's type. Gradients
      that are put together or into a parameter's shape by hand are no work.
    * ``noise`` multiplies those elements by 1 + noise * N(0, 1), to learn what rounding alone
      changes.
    """

    def __init__(self, *, cuda: bool, noise: float) -> None:
        super().__init__()
        self.cuda = cuda
        self.noise = noise
        self.work = 0
        self._generator = torch.Generator().manual_seed(7)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if self.cuda and func is torch.device:
            args = self._constructed(args, kwargs or {})
            kwargs = None
            if args == ("cuda",):
                return self._moved(torch.device("cuda"), torch.device("cpu"), UNINDEXED)
        args = tuple(map(self._translate, args))
        named = {name: self._translate(value) for name, value in (kwargs or {}).items()}
        if self.cuda and type(named.get("device")) is int:
            named["device"] = self._moved(torch.device("cuda", named["device"]), "cpu")
        func = _WIDENED.get(func, func)
        if self.cuda and func in (torch.Tensor.cuda, _IS_CUDA, torch.Tensor.pin_memory):
            return self._as_cuda(func, args)
        met = 0
        if computes() and func.__name__ != "__set__" and any(map(_holds_parameter, args)):
            args, met = self._meet(args)
        result = _widen(func(*args, **named), args)
        if met and _in_graph(result):
            self.work += met
        return result

    def _translate(self, value: Any) -> Any:
        if not isinstance(value, _TRANSLATED):
            return value
        if isinstance(value, torch.dtype):
            return torch.float64 if value in NARROW else value
        if isinstance(value, str):
            if self.cuda and value.split(":")[0] == "cuda":
                return self._moved(torch.device(value), "cpu")
            return _TYPE_NAMES.get(value, value)
        if self.cuda and isinstance(value, torch.device) and value.type == "cuda":
            return self._moved(value, torch.device("cpu"))
        return value

    @staticmethod
    def _constructed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """``torch.device("cuda", 1)``: one argument that holds the index."""
        kind = args[0] if args else kwargs.get("type", kwargs.get("device"))
        index = args[1] if len(args) > 1 else kwargs.get("index")
        return (f"{kind}:{index}",) if isinstance(kind, str) and index is not None else (kind,)

    @staticmethod
    def _moved(device: torch.device, answer: Any, index: int | None = None) -> Any:
        faked["device 'cuda'"] += 1
        if not _asked_by_torch():
            index = device.index if index is None else index
            devices[current_gpu[0] if index is None else index] += 1
        return answer

    @staticmethod
    def _as_cuda(func: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        faked["Tensor." + ("is_cuda" if func is _IS_CUDA else func.__name__)] += 1
        if func is torch.Tensor.cuda:
            devices[args[1] if len(args) > 1 and type(args[1]) is int else current_gpu[0]] += 1
        return True if func is _IS_CUDA else args[0]

    def _meet(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], int]:
        """The elements of the first tensor that is no parameter, which gets the noise."""
        for at, value in enumerate(args):
            if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
                if self.noise and value.is_floating_point():
                    args = (*args[:at], self._shaken(value), *args[at + 1 :])
                return args, value.numel()
        return args, 0

    def _shaken(self, value: torch.Tensor) -> torch.Tensor:
        draw = torch.empty(value.shape, dtype=value.dtype, device="cpu")
        draw = _NORMAL(draw, generator=self._generator).to(value.device)
        return value * (1 + self.noise * draw)


def computes() -> bool:
    """Whether calls are the training's: with gradients, and not traced, as a picture of the model
    is."""
    return torch.is_grad_enabled() and not torch._C._is_tracing()


def _asked_by_torch() -> bool:
    """Whether a line of torch itself makes the call that is translated."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename in _MODES:
        frame = frame.f_back
    name = frame.f_globals.get("__name__", "") if frame is not None else ""
    return str(name).split(".")[0] == "torch"


def _holds_parameter(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(isinstance(item, torch.nn.Parameter) for item in value)
    return isinstance(value, torch.nn.Parameter)


def _in_graph(result: Any) -> bool:
    """Whether gradients flow through a result, or through a part of it."""
    if isinstance(result, (list, tuple)):
        return any(map(_in_graph, result))
    return isinstance(result, torch.Tensor) and result.requires_grad


def _widen(result: Any, args: tuple[Any, ...]) -> Any:
    """``result`` in double precision where it is a new narrow tensor outside the graph."""
    if not isinstance(result, torch.Tensor) or result.dtype not in NARROW or result.requires_grad:
        return result
    return result if any(result is value for value in args) else result.double()
