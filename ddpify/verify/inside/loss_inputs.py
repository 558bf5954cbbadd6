"""What the losses are computed from: predictions and targets, row by row."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from ddpify.verify.inside.fingerprint import rows
from ddpify.verify.inside.forwards import MAX_ROWS
from ddpify.verify.inside.patching import replace

PAIR = 0.6180339887
"""What a target counts in the number of its pair."""


class LossInputs:
    """Watches the functions of torch.nn.functional that compare predictions with targets.

    Args:
        is_open: Whether steps are still recorded.

    Attributes:
        predictions: One number for each row that a loss took since the last ``reset``.
        targets: The same of its targets.
        pairs: One number for each row of predictions together with its target.
    """

    def __init__(self, is_open: Callable[[], bool]) -> None:
        self._is_open = is_open
        self._depth = 0
        self.reset()

    def reset(self) -> None:
        """Forget what the losses have taken so far."""
        self.predictions: list[float] = []
        self.targets: list[float] = []
        self.pairs: list[float] = []
        self._full = False

    def install(self) -> None:
        """Hook the losses; modules call them as attributes of torch.nn.functional."""
        for name, function in vars(functional).copy().items():
            if inspect.isfunction(function) and _compares(function):
                replace(functional, name, self._watched(function))

    def _watched(self, real: Any) -> Any:
        @functools.wraps(real)
        def loss(input: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            try:
                if self._depth == 1 and self._is_open() and _trains(input, target):
                    self._note(input, target)
                return real(input, target, *args, **kwargs)
            finally:
                self._depth -= 1

        return loss

    def _note(self, input: torch.Tensor, target: torch.Tensor) -> None:
        if self._full or len(self.pairs) + len(input) > MAX_ROWS:
            self.reset()
            self._full = True
            return
        predicted, wanted = rows(input), rows(target)
        self.predictions += predicted
        self.targets += wanted
        self.pairs += [a + PAIR * b for a, b in zip(predicted, wanted, strict=True)]


def _compares(function: Any) -> bool:
    """Whether a function takes predictions and, next to them, targets."""
    return [*inspect.signature(function).parameters][:2] == ["input", "target"]


def _trains(input: Any, target: Any) -> bool:
    """Whether a loss is part of what is trained on, with a target for each row."""
    tensors = isinstance(input, torch.Tensor) and isinstance(target, torch.Tensor)
    if not tensors or not input.requires_grad or not torch.is_grad_enabled():
        return False
    return bool(input.dim() and target.dim()) and len(input) == len(target)
