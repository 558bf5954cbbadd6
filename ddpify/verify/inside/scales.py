"""The factor of the loss in mixed precision, after each change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ddpify.verify.inside.patching import replace


def watch(emit: Callable[..., None], caller: Callable[[], str]) -> None:
    """Tell of each factor that a gradient scaler sets.

    Args:
        emit: Takes each event: a kind and its values.
        caller: Tells the script's line that is running.
    """
    real: Any = torch.amp.GradScaler.update

    def update(scaler: Any, *args: Any, **kwargs: Any) -> None:
        real(scaler, *args, **kwargs)
        if scaler.is_enabled():
            emit("scale", value=float(scaler.get_scale()), at=caller())

    replace(torch.amp.GradScaler, "update", update)
