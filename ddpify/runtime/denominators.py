"""What a classification loss divides by."""

from typing import Any

import torch


def target_weight(
    target: torch.Tensor, weight: Any = None, ignore_index: int = -100
) -> torch.Tensor | int:
    """What the mean of ``cross_entropy`` or ``nll_loss`` over these targets divides by.

    target: class numbers of any shape, or the classes' probabilities along dimension 1. weight: of
    each class, or None. ignore_index: the class that does not count, which need not be one of the
    classes. Returns the sum of the weights of the targets that count, or how many those are. No
    communication.
    """
    if target.is_floating_point():  # where weights and ignored targets do not enter
        return target.numel() // target.shape[1] if target.dim() > 1 else 1
    counts = target != ignore_index
    if weight is None:
        return counts.sum()
    weights: torch.Tensor = weight[target.masked_fill(~counts, 0)]
    return (weights * counts).sum()
