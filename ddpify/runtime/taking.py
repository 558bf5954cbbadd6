"""Rows by an index whose positions count the rows of the global batch."""

from typing import Any

import torch

from ddpify.runtime.reduce import gather


def take(x: Any, index: Any) -> Any:
    """``x[index]`` of the global batch, for this rank's part of ``index``.

    x: a tensor or array with a row (or a fixed number of rows) per sample. index: a tensor, array
    or list with a row per sample: a mask leaves rows of this rank; positions count the rows of the
    global batch, so that any rank's may be taken. Returns the same kind as ``x``, differentiable.
    A collective, unless ``index`` is a mask.

    Raises RuntimeError where the rows are not a multiple of this rank's samples.
    """
    return x[index] if _is_mask(index) else gather(x)[index]


def _is_mask(index: Any) -> bool:
    """Whether an index says of each row if it is taken. PyTorch takes bytes for a mask, too."""
    if isinstance(index, torch.Tensor):
        return index.dtype in (torch.bool, torch.uint8)
    if isinstance(index, list):
        return bool(index) and isinstance(index[0], bool)
    return str(index.dtype) == "bool"
