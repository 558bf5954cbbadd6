"""A forward pass over rows that every rank holds, shared among the ranks.

Run whole on each rank, it would be computed N times, and batch normalisation would take its
copies for rows of one batch.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ddpify.runtime.process import world
from ddpify.runtime.reduce import gather, split
from ddpify.runtime.share import share_of, sharing


def spread(model: nn.Module, *, whole: bool = False) -> Callable[..., Any]:
    """The model, for inputs whose rows (dimension 0) every rank holds.

    Each rank computes its part of the rows as part of one batch; the result is whole on every
    rank. Takes and gives what the model does, where that has a row for each of the first
    tensor's; other arguments are passed as they are. Differentiable. In a plain ``python`` run it
    is the model itself. Its calls are collectives.

    ``whole``: each rank computes all rows, without communication, as one batch that is its own.
    So ``torch.autograd.grad`` finds all that one process would.
    """
    if world().size == 1:
        return model
    return functools.partial(_whole_forward if whole else _spread_forward, model)


def _whole_forward(model: nn.Module, *inputs: Any, **kwargs: Any) -> Any:
    with sharing(None):
        return model(*inputs, **kwargs)


def _spread_forward(model: nn.Module, *inputs: Any, **kwargs: Any) -> Any:
    given = [*inputs, *kwargs.values()]
    rows = next((len(x) for x in given if isinstance(x, torch.Tensor) and x.dim()), 0)
    place = world()
    share = share_of(rows, place.rank, place.size)
    if share is None:
        return model(*inputs, **kwargs)
    with sharing(share):
        own = [_own_rows(x, rows) for x in inputs]
        named = {name: _own_rows(x, rows) for name, x in kwargs.items()}
        return gather(model(*own, **named))


def _own_rows(x: Any, rows: int) -> Any:
    rowwise = isinstance(x, torch.Tensor) and x.dim() > 0 and len(x) == rows
    return split(x) if rowwise else x
