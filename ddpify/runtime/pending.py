"""A global mean that is still on its way while the backward pass runs, or not even asked for.

A backward needs the weight of this rank's loss, which is known at once, and not the loss itself. So
the ranks exchange the value behind the backward's back; whatever else looks at it first waits. A
lazy one is exchanged when it is looked at, if ever.
"""

import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import torch
import torch.distributed as dist

from ddpify.runtime.process import kept

_SMALL = 1024  # elements; a message of 8 KiB takes as long as one of 4 KiB


class Pending(torch.Tensor):
    """A scalar whose value arrives; an ordinary tensor as soon as it is there."""

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Any use of the tensor: its backward goes first, everything else waits."""
        if func is not torch.Tensor.backward:
            settle()
            return func(*args, **(kwargs or {}))
        args[0].__class__ = torch.Tensor
        out = func(*args, **(kwargs or {}))
        settle()
        return out


class Lazy(torch.Tensor):
    """A scalar whose value the ranks exchange when all of them look at it."""

    _ddpify_part: tuple[torch.Tensor, float]  # this rank's value, and its weight

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Any use of the tensor: a backward leaves it as it is, all else is a collective."""
        backward = func is torch.Tensor.backward
        for one in _lazy_in((*args[backward:], *(kwargs or {}).values())):
            _exchange(one)
        if not backward:
            return func(*args, **(kwargs or {}))
        args[0].__class__ = torch.Tensor
        try:
            return func(*args, **(kwargs or {}))
        finally:
            args[0].__class__ = cls


class NoRows(torch.autograd.Function):
    """Zero, with exact zeros as gradients, whatever x is: the loss of a rank without a sample."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """x: a scalar."""
        return torch.zeros_like(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> torch.Tensor:
        """Zeros."""
        return torch.zeros_like(grads[0])


def defer(x: torch.Tensor, factor: float) -> torch.Tensor:
    """``sum_r factor_r * x_r`` of scalars as a Lazy; its gradient is W times ``factor``.

    No communication, until the result is read: that is a collective.
    """
    weight = factor * dist.get_world_size()
    out: torch.Tensor = x * weight if factor else NoRows.apply(x)  # type: ignore[no-untyped-call]
    out.__class__ = Lazy
    out._ddpify_part = (x.detach(), factor)  # type: ignore[attr-defined]
    return out


def _lazy_in(held: Any) -> Iterator[Lazy]:
    if isinstance(held, Lazy):
        yield held
    elif isinstance(held, dict):
        yield from _lazy_in(list(held.values()))
    elif isinstance(held, (tuple, list)):
        for one in held:
            yield from _lazy_in(one)


def _exchange(lazy: Lazy) -> None:
    part, factor = lazy._ddpify_part
    total = weighted_part(part, factor)
    dist.all_reduce(total)
    del lazy._ddpify_part
    cast(Any, lazy).__class__ = torch.Tensor
    lazy.detach().copy_(total)


def weighted_part(x: torch.Tensor, factor: float) -> torch.Tensor:
    """``factor * x``, to be reduced in place: a copy, in a wider type where that costs nothing."""
    wide = _widened(x.detach())
    # Multiplying copies, and so does zeros_like: the caller's tensor is never reduced in place.
    return kept((wide * factor if factor else torch.zeros_like(wide)).contiguous())


def _widened(x: torch.Tensor) -> torch.Tensor:
    """float32 instead of 16 bits; float64 instead of float32 where x is small.

    Two accuracies that are equal in one process are then equal over the ranks as well, so that
    ``accuracy > best`` decides alike.
    """
    if x.dtype in (torch.float16, torch.bfloat16):
        return x.float()
    small = x.numel() <= _SMALL and x.device.type in ("cpu", "cuda")
    return x.double() if small and x.dtype == torch.float32 else x


Exchange = tuple["weakref.ref[torch.Tensor]", torch.Tensor, Any]
_exchanges: list[Exchange] = []


def send(out: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    """Begin to add up ``part`` over the ranks, to become the value of ``out``, both scalars.

    ``out`` is returned as a Pending. A collective.
    """
    work = dist.all_reduce(part, async_op=True)
    out.__class__ = Pending
    _exchanges.append((weakref.ref(out), part, work))
    return out


def settle() -> None:
    """Wait for all values that are on their way, and put each in its place."""
    while _exchanges:
        reference, part, work = _exchanges.pop(0)
        work.wait()
        out = reference()
        if out is not None:
            out.__class__ = torch.Tensor
            out.detach().copy_(part)
