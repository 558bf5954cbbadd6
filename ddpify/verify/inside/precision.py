"""Double precision, one thread, no autocast, no compilation: rounding and tools decide nothing."""

from __future__ import annotations

from typing import Any

import torch

from ddpify.verify.inside.patching import answer, faked, replace
from ddpify.verify.inside.world import NARROW


def install() -> None:
    """Prepare this process. ``World`` does the part that concerns single calls."""
    torch.set_num_threads(1)
    torch.backends.cudnn.deterministic = True
    torch.set_default_dtype(torch.float64)
    for name in ("set_default_dtype", "set_default_tensor_type", "set_num_threads"):
        replace(torch, name, lambda *args, **kwargs: None)
    for name in ("FloatTensor", "HalfTensor", "BFloat16Tensor"):
        replace(torch, name, torch.DoubleTensor)
    _widen_sources()
    _no_autocast()
    answer(torch, "compile", _identity_compile, "torch.compile")
    answer(torch.nn.Module, "compile", None, "Module.compile")


def _widen_sources() -> None:
    from_numpy, load = torch.from_numpy, torch.load
    replace(torch, "from_numpy", lambda array: widened(from_numpy(array)))

    def load_as_saved(*args: Any, **kwargs: Any) -> Any:
        # Tensors are rebuilt from their bytes, in the type that those were written in.
        with torch._C.DisableTorchFunction():
            loaded = load(*args, **kwargs)
        return widened(loaded)

    replace(torch, "load", load_as_saved)


def widened(value: Any) -> Any:
    """``value`` with the narrow tensors in its dictionaries, lists, tuples and modules in double
    precision."""
    if isinstance(value, torch.nn.Module):
        return value.double()
    if isinstance(value, torch.nn.Parameter):
        value.data = widened(value.data)
        return value
    if isinstance(value, torch.Tensor):
        return value.double() if value.dtype in NARROW else value
    if isinstance(value, dict):
        for key in value:
            value[key] = widened(value[key])
        return value
    if isinstance(value, list):
        value[:] = [widened(item) for item in value]
        return value
    return tuple(widened(item) for item in value) if type(value) is tuple else value


def _identity_compile(model: Any = None, *args: Any, **kwargs: Any) -> Any:
    return (lambda function: function) if model is None else model


def _no_autocast() -> None:
    real = torch.autocast

    class Autocast(real):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            faked["torch.autocast (off)"] += 1
            super().__init__("cpu", dtype=torch.bfloat16, enabled=False)

    for owner, name in ((torch, "autocast"), (torch.amp, "autocast"), (torch.cuda.amp, "autocast")):
        replace(owner, name, Autocast)
    for base in (torch.amp.GradScaler, torch.cuda.amp.GradScaler):
        _disable_scaler(base)


def _disable_scaler(scaler: Any) -> None:
    if "__init__" not in vars(scaler):
        return
    real = scaler.__init__

    def disabled(self: Any, *args: Any, **kwargs: Any) -> None:
        faked["GradScaler (off)"] += 1
        kwargs["enabled"] = False
        if scaler is torch.amp.GradScaler:
            real(self, "cpu", enabled=False)
        else:
            torch.amp.GradScaler.__init__(self, "cpu", enabled=False)

    scaler.__init__ = disabled
