"""Loss scales that meet float16 gradients as large as those of one process."""

from collections.abc import Iterable
from typing import Any, TypeVar

import torch
from torch.amp import GradScaler
from torch.optim import Optimizer

from ddpify.runtime.classes import subclass_of
from ddpify.runtime.process import world_size

AnyScaler = TypeVar("AnyScaler", bound=GradScaler)


class _Divided(torch.autograd.Function):
    """The same tensor; its gradient is divided by a number."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, divisor: int) -> torch.Tensor:
        """x: any shape."""
        ctx.divisor = divisor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[torch.Tensor, None]:
        """The gradient of x (differentiable again)."""
        return grads[0] / ctx.divisor, None


class _OnRanks(GradScaler):
    """What the class of a scaler becomes on several ranks, beside its own."""

    _unscaled: set[int]

    def scale(self, outputs: Any) -> Any:
        """The scaled losses, of which backward gives 1/W of the scaled gradients."""
        scaled = super().scale(outputs)
        return _divided(scaled, world_size()) if self.is_enabled() else scaled

    def unscale_(self, optimizer: Optimizer) -> None:
        """Unscale the gradients, to all of what the script's own scale would give."""
        super().unscale_(optimizer)
        if self.is_enabled():
            self._unscaled.add(id(optimizer))
            _multiply(optimizer, world_size())

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> float | None:
        """Unscale, also for optimizers that do so in their own step, which know one scale alone."""
        if self.is_enabled() and id(optimizer) not in self._unscaled:
            self.unscale_(optimizer)
        result: float | None = super().step(optimizer, *args, **kwargs)
        return result

    def update(self, new_scale: float | torch.Tensor | None = None) -> None:
        """Adapt the scale, and let gradients be unscaled again."""
        super().update(new_scale)
        self._unscaled.clear()


def wrap_scaler(scaler: AnyScaler) -> AnyScaler:
    """The same scaler, under which float16 overflows where it does in one process.

    A rank's own gradients are W times its share of the global batch's until
    DistributedDataParallel averages them over the W ranks, so that the script's scale would exceed
    float16's range at other steps, which are then skipped. Backward runs on 1/W of the scaled
    loss, and unscaling multiplies by W. Losses, scales and states are the script's own; gradients
    that are read before ``unscale_`` are 1/W of those of one process. In a plain ``python`` run
    nothing changes.

    scaler: a ``torch.amp.GradScaler``. Raises TypeError for another object.
    """
    if not isinstance(scaler, GradScaler):
        raise TypeError(f"a {type(scaler).__name__} is no GradScaler")
    if world_size() > 1:
        scaler.__class__ = subclass_of(type(scaler), _OnRanks, _unscaled=set())
    return scaler


def _divided(scaled: Any, divisor: int) -> Any:
    """scaled: a tensor, or any number of them in an iterable, as ``scale`` returns it."""
    if isinstance(scaled, torch.Tensor):
        return _Divided.apply(scaled, divisor)  # type: ignore[no-untyped-call]
    assert isinstance(scaled, Iterable)
    parts = (_divided(one, divisor) for one in scaled)
    return type(scaled)(parts) if isinstance(scaled, (list, tuple)) else parts


def _multiply(optimizer: Optimizer, factor: int) -> None:
    """Multiply the gradients of an optimizer's parameters in place."""
    parameters = (p for group in optimizer.param_groups for p in group["params"])
    gradients = [p.grad for p in parameters if p.grad is not None]
    dense = [one for one in gradients if not one.is_sparse]
    if dense:
        torch._foreach_mul_(dense, factor)
    for one in gradients:
        if one.is_sparse:
            one.mul_(factor)
