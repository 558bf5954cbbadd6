"""A global mean that is still on its way while the backward pass runs.

A backward needs the weight of this rank's loss, which is known at once, and not the loss itself. So
the ranks exchange the value behind the backward's back; whatever else looks at it first waits.
"""

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist


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
        if getattr(func, "__name__", "") != "backward":
            settle()
            return func(*args, **(kwargs or {}))
        args[0].__class__ = torch.Tensor
        out = func(*args, **(kwargs or {}))
        settle()
        return out


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
