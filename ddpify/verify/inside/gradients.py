"""Gradients between the backward that makes them and the step that uses them."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch.optim.optimizer import Optimizer

from ddpify.verify.inside.fingerprint import fingerprint
from ddpify.verify.inside.patching import replace

Mark = tuple[float, float]


def owner(tensor: Any, parameters: Iterable[torch.Tensor]) -> torch.Tensor | None:
    """The first of these parameters whose gradient lies where a tensor does; None without one."""
    if not isinstance(tensor, torch.Tensor):
        return None
    place = tensor.data_ptr()
    held = (one for one in parameters if one.grad is not None and one.grad.data_ptr() == place)
    return next(held, None)


class Gradients:
    """Watches the gradients of all parameters that optimizers hold.

    Attributes:
        changed_early: Whether a gradient was changed before it entered a collective, since the
            last ``reset``.
    """

    def __init__(self) -> None:
        self._held: dict[int, weakref.ref[torch.Tensor]] = {}
        self._arrived: dict[int, Mark] = {}
        self._clipped: dict[int, Mark] = {}
        self._window = 1
        self._backwards = 0
        self.changed_early = False

    def install(self) -> None:
        """Hook how optimizers take parameters."""
        real = Optimizer.add_param_group

        def add(optimizer: Optimizer, group: dict[str, Any]) -> None:
            real(optimizer, group)
            taken = optimizer.param_groups[-1]["params"]
            self._held |= {id(parameter): weakref.ref(parameter) for parameter in taken}

        replace(Optimizer, "add_param_group", add)

    def reset(self) -> None:
        """An optimizer has made its step."""
        self._arrived, self._clipped, self.changed_early = {}, {}, False
        self._window, self._backwards = max(self._backwards, 1), 0

    def after_backward(self) -> None:
        """Keep what a backward has left; of several for one step, the last ones alone."""
        self._backwards += 1
        if self._backwards >= self._window:
            self._arrived = {
                id(parameter): fingerprint(parameter.grad)
                for parameter in self._parameters()
                if parameter.grad is not None
            }

    def before_collective(self, tensor: Any) -> None:
        """A tensor is about to be reduced: a gradient that was changed before is remembered."""
        parameter = None if self.changed_early else owner(tensor, self._parameters())
        if parameter is not None:
            arrived = self._arrived.get(id(parameter))
            self.changed_early = arrived is not None and arrived != fingerprint(tensor)

    def before_clipping(self, parameters: Iterable[torch.Tensor]) -> None:
        """Clipping hides a gradient's scale: keep the gradient that is handed to it."""
        for parameter in parameters:
            if parameter.grad is not None:
                self._clipped[id(parameter)] = fingerprint(parameter.grad)

    def arrived(self, parameter: torch.Tensor) -> Mark | None:
        """The gradient as the last backward left it; None where there was none."""
        return self._arrived.get(id(parameter))

    def unclipped(self, parameter: torch.Tensor) -> Mark | None:
        """The gradient that was handed to clipping, or else to the step."""
        return self._clipped.get(id(parameter)) or self.used(parameter)

    @staticmethod
    def used(parameter: torch.Tensor) -> Mark | None:
        """The gradient that is handed to the step."""
        return None if parameter.grad is None else fingerprint(parameter.grad)

    def _parameters(self) -> Iterable[torch.Tensor]:
        found = (reference() for reference in self._held.values())
        return (parameter for parameter in found if parameter is not None)
