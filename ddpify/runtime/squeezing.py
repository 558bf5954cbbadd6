"""Tensors without their dimensions of size 1, of which the rows' is one on some ranks alone."""

from typing import Any

import torch

from ddpify.runtime.share import current_share


def squeeze(x: Any, *, dim: int = 0) -> Any:
    """``x.squeeze()`` as it is for the global batch: the dimension of the rows stays.

    x: a tensor or array with a row per sample along ``dim``. One process keeps that dimension
    unless its batch is a single sample, and so does a rank that has only one of its samples.
    Returns a view. No communication.
    """
    if not _is_single(x, dim):
        return x.squeeze()
    for place in _others(x, dim):
        x = x.squeeze(place)
    return x


def squeeze_(x: torch.Tensor, *, dim: int = 0) -> torch.Tensor:
    """``x.squeeze_()`` as it is for the global batch: squeeze() in place. Returns x."""
    if not _is_single(x, dim):
        return x.squeeze_()
    for place in _others(x, dim):
        x.squeeze_(place)
    return x


def _is_single(x: Any, dim: int) -> bool:
    """Whether this rank has one row along ``dim`` of a batch that has more."""
    share = current_share()
    single = share is not None and share.rows == 1 < share.total
    return single and x.ndim > dim and bool(x.shape[dim] == 1)


def _others(x: Any, dim: int) -> list[int]:
    """The dimensions of size 1 but for that of the rows, the last one first."""
    return [at for at in reversed(range(x.ndim)) if at != dim and x.shape[at] == 1]
