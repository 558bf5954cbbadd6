"""Updates that a script makes itself, without an optimizer: ``p.data.add_(p.grad, alpha=-lr)``.

No hook tells of them: parameters that have other values after a backward, when a model is called
again, have been updated in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ddpify.verify.inside.fingerprint import fingerprint

Mark = tuple[float, float]


@dataclass(frozen=True)
class Parameters:
    """Parameters that are updated together, in the shape of an optimizer."""

    param_groups: list[dict[str, list[torch.Tensor]]]


@dataclass(frozen=True)
class Update:
    """One update.

    Attributes:
        owner: What was updated; the same object for the same parameters.
        before: Fingerprint of each parameter after the backward.
        grads: The same of each gradient.
        at: The script's line that made the backward.
    """

    owner: Parameters
    before: list[Mark]
    grads: list[Mark | None]
    at: str


class UpdatesByHand:
    """Watches the parameters of the models that are called, until an optimizer makes a step."""

    def __init__(self) -> None:
        self._held: dict[int, torch.Tensor] = {}
        self._owners: dict[tuple[int, ...], Parameters] = {}
        self._pending: Update | None = None
        self._active = True

    def stop(self) -> None:
        """An optimizer makes the updates."""
        self._active, self._pending = False, None

    def called(self, module: torch.nn.Module) -> None:
        """A model is called, outermost and in training mode."""
        if self._active:
            self._held |= {id(p): p for p in module.parameters() if p.requires_grad}

    def after_backward(
        self, gradient: Callable[[torch.Tensor], Mark | None], caller: Callable[[], str]
    ) -> None:
        """Remember the parameters and their gradients."""
        if not self._active or not self._held:
            return
        held = list(self._held.values())
        owner = self._owners.setdefault(tuple(self._held), Parameters([{"params": held}]))
        before = [fingerprint(p) for p in held]
        self._pending = Update(owner, before, [gradient(p) for p in held], caller())

    def take(self) -> Update | None:
        """The update since the last backward; None if no parameter has changed."""
        found = self._pending
        if found is None or found.before == [fingerprint(p) for p in self._held.values()]:
            return None
        self._held, self._pending = {}, None
        return found
