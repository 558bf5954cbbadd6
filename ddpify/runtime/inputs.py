"""What a model is called with, on the model's device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


class MovesInputs:
    """A hook before a model's forward that moves its tensors, in containers too, to a device."""

    def __init__(self, place: torch.device) -> None:
        self.place = place

    def __call__(
        self, _: nn.Module, inputs: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments to call the forward with."""
        return mapped(inputs, self._moved), mapped(kwargs, self._moved)

    def _moved(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self.place, non_blocking=True)


def mapped(held: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """A tensor changed, or a container with each of its tensors changed; anything else as it is."""
    if isinstance(held, torch.Tensor):
        return change(held)
    if isinstance(held, dict):
        return type(held)((key, mapped(value, change)) for key, value in held.items())
    if isinstance(held, tuple) and hasattr(held, "_fields"):
        return type(held)(*(mapped(value, change) for value in held))
    if isinstance(held, list | tuple):
        return type(held)(mapped(value, change) for value in held)
    return held


def move_inputs(model: nn.Module, place: torch.device) -> None:
    """Let a model move what it is called with, as DataParallel does."""
    model.register_forward_pre_hook(MovesInputs(place), prepend=True, with_kwargs=True)
