"""Tensors that an optimizer trains and no model holds.

What a rank gets of a reduced loss is as many times too large as there are ranks: for the parameters
of models the mean over the ranks makes up for that.
"""

import contextlib
from collections.abc import Iterator

import torch

from ddpify.runtime.process import world_size
from ddpify.runtime.replication import AveragedGradients
from ddpify.runtime.share import current_share

_TRAINED, _ROWS = "_ddpify_trained", "_ddpify_trained_rows"


def trained_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Let a tensor that all ranks hold have the gradient of the global batch's loss.

    tensor: a leaf, the same on all ranks. Returns the same object, whose
    ``.grad`` is averaged over the ranks after each backward that reaches it, which is a collective.
    """
    if world_size() > 1 and not hasattr(tensor, _TRAINED):
        setattr(tensor, _TRAINED, True)
        with _requiring_gradient(tensor):
            AveragedGradients([tensor])
    return tensor


def trained_rows(rows: torch.Tensor) -> torch.Tensor:
    """Let this rank's rows have the gradients that they would have in one process.

    rows: a leaf with this rank's rows of the current batch. Returns the
    same object. No communication.
    """
    if world_size() > 1 and not are_trained_rows(rows):
        setattr(rows, _ROWS, True)
        with _requiring_gradient(rows):
            rows.register_hook(_as_in_one_process)  # type: ignore[no-untyped-call]
    return rows


@contextlib.contextmanager
def _requiring_gradient(tensor: torch.Tensor) -> Iterator[None]:
    """Only such a tensor takes hooks; one that is frozen yet may be trained later."""
    asked = tensor.requires_grad
    tensor.requires_grad_()
    yield
    tensor.requires_grad_(asked)


def _as_in_one_process(gradient: torch.Tensor) -> torch.Tensor:
    share = current_share()
    # A ghost's is zero, which a script that normalises it would make NaN, and then the model's.
    ghost = share is not None and share.ghost
    return torch.ones_like(gradient) if ghost else gradient / world_size()


def are_trained_rows(tensor: torch.Tensor) -> bool:
    """Whether ``trained_rows`` has got a tensor, on several ranks."""
    return hasattr(tensor, _ROWS)


def gradient_scale(rows: torch.Tensor) -> int:
    """How many times larger ``rows.grad`` is on this rank than in one process.

    rows: this rank's rows of the current batch, whether ``trained_rows`` has got them or not.
    """
    return 1 if are_trained_rows(rows) else world_size()
