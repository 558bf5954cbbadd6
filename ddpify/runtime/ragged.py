"""Rows of which each rank has any number, as a mask leaves them: those of all ranks."""

import builtins
import functools
import sys
from collections.abc import Callable
from itertools import accumulate, chain
from typing import Any

import torch
import torch.distributed as dist

from ddpify.runtime.process import world, world_size
from ddpify.runtime.reduce import exchanged, over_ranks, shared_as
from ddpify.runtime.share import current_share


def gather_ragged(x: Any, *, of: object = None) -> Any:
    """All ranks' rows, in order of rank, where each has any number of them.

    x: a tensor or array, with rows of one shape on all ranks in dimension 0, or a list of Python
    objects. Returns the same kind, on every rank; the same object where the current batch is not
    shared. Two collectives; a tensor is differentiable. ``of`` as for mean().
    """
    share = shared_as(of)
    if share is None:
        return x
    if "numpy" in sys.modules and isinstance(x, sys.modules["numpy"].ndarray):
        return gather_ragged(torch.from_numpy(x), of=of).numpy()
    if isinstance(x, list):
        received: list[list[Any]] = [[] for _ in range(world_size())]
        dist.all_gather_object(received, [] if share.ghost else x)
        return list(chain.from_iterable(received))
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"cannot gather a {type(x).__name__}: not a tensor, an array or a list")
    rows: torch.Tensor = _GatherRagged.apply(x, 0 if share.ghost else len(x))  # type: ignore[no-untyped-call]
    return rows


def drawn_ragged(draw: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Let a function that draws as much as a tensor has, such as ``torch.randn_like``, draw for the
    rows of all ranks, of which each has any number, and give this rank's.

    draw: called with a tensor as large as the first argument would be in one process, and with the
    other arguments; it goes by its shape and kind alone. The call is a collective.
    """

    @functools.wraps(draw)
    def drawn(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        share = current_share()
        if share is None:
            return draw(x, *args, **kwargs)
        counts = _every_count(0 if share.ghost else len(x), x.device)
        first = [0, *accumulate(counts)][world().rank]
        rows = draw(x.new_empty(builtins.sum(counts), *x.shape[1:]), *args, **kwargs)
        own = rows[first : first + len(x)]
        return torch.zeros_like(x, dtype=own.dtype) if share.ghost else own

    return drawn


class _GatherRagged(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, own: int) -> torch.Tensor:
        """x: (N, ...), of which the first ``own`` rows count."""
        counts = _every_count(own, x.device)
        ctx.first = [0, *accumulate(counts)][world().rank]
        ctx.own, ctx.shape = own, x.shape
        padded = x.new_zeros(max(counts), *x.shape[1:])
        padded[:own] = x.detach()[:own]
        parts = zip(exchanged(padded), counts, strict=True)
        return torch.cat([part[:count] for part, count in parts])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[torch.Tensor, None]:
        """This rank's rows of the ranks' summed gradients."""
        summed = over_ranks(grads[0], 1.0, None)
        grad = summed.new_zeros(ctx.shape)
        grad[: ctx.own] = summed[ctx.first : ctx.first + ctx.own]
        return grad, None


def _every_count(own: int, place: torch.device) -> list[int]:
    return [int(count) for count in exchanged(torch.tensor([own], device=place))]
