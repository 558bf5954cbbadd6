"""Tensors in the script's variables that outlive a step: what one round leaves to the next."""

from __future__ import annotations

import torch

from ddpify.verify.inside.fingerprint import fingerprint
from ddpify.verify.inside.survey import named

MAX_ELEMENTS = 1 << 20

Mark = tuple[float, float]


class ScriptTensors:
    """Watches floating-point tensors that take no gradient.

    Args:
        folder: The script's folder: its files' variables are looked at.

    Attributes:
        kept: Before the step, each tensor that was in its variable at the step before, too.
        carried: Before the first forward since the step before, each tensor that is there: its
            shape, and its fingerprint.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._before: dict[str, torch.Tensor] = {}
        self.kept: dict[str, Mark] = {}
        self.carried: dict[str, tuple[list[int], Mark]] = {}

    def before_forward(self) -> None:
        """The first forward of a round begins."""
        self.carried = {
            name: (list(tensor.shape), fingerprint(tensor))
            for name, tensor in _tensors(self._folder).items()
        }

    def before_step(self) -> None:
        """A step begins."""
        before, self._before = self._before, _tensors(self._folder)
        self.kept = {
            name: fingerprint(tensor)
            for name, tensor in self._before.items()
            if before.get(name) is tensor
        }


def _tensors(folder: str) -> dict[str, torch.Tensor]:
    """By name; numbers and large data sets left out."""
    return {
        name: value
        for name, value in named(folder)
        if type(value) is torch.Tensor
        and not value.requires_grad
        and 1 < value.numel() <= MAX_ELEMENTS
        and value.is_floating_point()
    }
