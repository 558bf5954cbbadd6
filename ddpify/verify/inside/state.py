"""What an optimizer remembers between its steps."""

from __future__ import annotations

import torch
from torch.optim import Optimizer

from ddpify.verify.inside.fingerprint import fingerprint, is_divided


def state_marks(optimizer: Optimizer) -> dict[str, tuple[float, float]]:
    """Fingerprint of each tensor of an optimizer's state that is whole on this rank.

    The keys name a parameter by its place and the entry, as in ``0/exp_avg``.
    """
    found = {}
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for at, parameter in enumerate(parameters):
        for name, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, torch.Tensor) and not is_divided(value):
                found[f"{at}/{name}"] = fingerprint(value)
    return found
