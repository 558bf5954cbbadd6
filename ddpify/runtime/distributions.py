"""A distribution of the global batch's rows, from that of a rank's: what all ranks draw alike."""

import copy
from collections.abc import Callable
from typing import TypeVar

import torch
from torch.distributions import Distribution

AnyDistribution = TypeVar("AnyDistribution", bound=Distribution)


def of_all_rows(
    x: AnyDistribution, total: int, gather: Callable[[torch.Tensor], torch.Tensor]
) -> AnyDistribution:
    """The same distribution with the parameters of all ``total`` samples.

    x: has the samples in its first batch dimension, and holds tensors as its parameters.
    gather: gives all ranks' rows of a parameter. A collective for each tensor that it holds.

    Raises TypeError for one that is made of others.
    """
    held = [name for name in (*x.arg_constraints, "_param") if name in vars(x)]
    shape = x.batch_shape
    parts = {name: getattr(x, name) for name in held}
    if not shape or not parts or any(part.shape[:1] != shape[:1] for part in parts.values()):
        raise TypeError(f"cannot gather a {type(x).__name__}: its parameters have no rows")
    gathered = {part: gather(part) for part in dict.fromkeys(parts.values())}  # by identity
    whole = copy.copy(x)
    vars(whole).update({name: gathered[part] for name, part in parts.items()})
    vars(whole)["_batch_shape"] = torch.Size([total, *shape[1:]])
    return whole
