"""Let a script that hardcodes CUDA run on the CPU, as the reference of its converted self."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


def redirect_cuda_to_cpu() -> None:
    """For the rest of the process, every CUDA device is the CPU, and CUDA is "available"."""
    mode: Any = _CudaToCpu()
    mode.__enter__()
    cuda: Any = torch.cuda
    cuda.is_available = lambda: True
    cuda.device_count = lambda: 1
    cuda.current_device = lambda: 0
    for name in ("set_device", "manual_seed", "manual_seed_all", "synchronize", "empty_cache"):
        setattr(cuda, name, _nothing())
    torch.nn.Module.to = _module_to  # type: ignore[method-assign,assignment]
    # A build for CUDA says what one for CPUs does: optimizers would ask the driver.
    torch.accelerator.current_accelerator = lambda *args, **kwargs: None


class _CudaToCpu(TorchFunctionMode):
    """Replaces CUDA devices in the arguments of every torch function."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is torch.Tensor.cuda:
            return args[0]
        if func is torch.Tensor.to:
            args = (args[0], *map(_on_cpu, args[1:]))
        return func(*map(_without_cuda, args), **_values_without_cuda(kwargs or {}))


def _without_cuda(value: Any) -> Any:
    """A CUDA device or its name becomes the CPU; anything else stays."""
    is_cuda = isinstance(value, torch.device) and value.type == "cuda"
    is_name = isinstance(value, str) and value.partition(":")[0] == "cuda"
    return torch.device("cpu") if is_cuda or is_name else value


def _on_cpu(value: Any) -> Any:
    """As above, where a plain integer is a CUDA device too."""
    return torch.device("cpu") if type(value) is int else _without_cuda(value)


def _values_without_cuda(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _without_cuda(value) for name, value in kwargs.items()}


_original_module_to = torch.nn.Module.to


def _module_to(self: torch.nn.Module, *args: Any, **kwargs: Any) -> torch.nn.Module:
    # Module.to parses its arguments below the level that a function mode sees.
    return _original_module_to(self, *map(_on_cpu, args), **_values_without_cuda(kwargs))


def _nothing() -> Callable[..., None]:
    """Stands in for a CUDA call without a result; TorchDynamo wants one function for each name."""
    return lambda *args, **kwargs: None
