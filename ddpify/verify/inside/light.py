"""Fingerprints of parameters and gradients alone: cheap enough for every step of a training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from ddpify.verify.inside.collectives import Collectives
from ddpify.verify.inside.fingerprint import is_divided, local
from ddpify.verify.inside.survey import survey

_NOTHING: dict[str, Any] = {
    "losses": [], "rows": [], "row_size": 0, "columns": [], "column_size": 0, "items": [],
    "forwards": [], "synchronised": [], "clips": [], "roots": [], "rng": {}, "calls": {},
    "before": None, "module_read": False, "others": {}, "kept": {}, "evaluating": [],
}  # fmt: skip


class LightSteps:
    """Records the first steps of each optimizer.

    A fingerprint here is a tensor's norm and sum in its own type: two numbers that equal replicas
    have in common to the bit. All of them are read from the device at once.

    Args:
        emit: Takes each event: a kind and its values.
        collectives: Asked what wrapped models do.
        root: The folder of the script.
        limit: Steps that are recorded.
        done: Called once, after the last of them.
    """

    def __init__(
        self,
        emit: Callable[..., None],
        collectives: Collectives,
        root: str,
        limit: int,
        done: Callable[[], None],
    ) -> None:
        self._emit, self._collectives, self._root = emit, collectives, root
        self._limit, self._done = limit, done
        self.count, self.stop = 0, False
        self._optimizers: dict[int, int] = {}
        self._buffers: dict[int, list[torch.Tensor]] = {}
        self._depth = 0
        self._grads: list[Any] = []

    def install(self) -> None:
        """Hook the steps of all optimizers."""
        self._hooks = [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]

    def remove(self) -> None:
        """Leave the optimizers alone again."""
        for hook in self._hooks:
            hook.remove()

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._depth += 1
        if self._depth == 1:
            if id(optimizer) not in self._optimizers:
                self._introduce(optimizer)
            self._grads = [parameter.grad for parameter in _parameters(optimizer)]
            self._grad_marks = _packed(self._grads)

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._depth -= 1
        if self._depth:
            return
        number = self._optimizers[id(optimizer)]
        parts = [self._grad_marks, _packed(_parameters(optimizer)), _packed(self._buffers[number])]
        grads, params, buffers = _read(parts)
        self._emit(
            "step",
            optimizer=number,
            lr=[float(group["lr"]) for group in optimizer.param_groups if "lr" in group],
            grads=[m if g is not None else None for m, g in zip(grads, self._grads, strict=True)],
            params=params,
            buffers=buffers,
            at=self._collectives.caller(),
            **_NOTHING,
        )
        self.count += 1
        if self.count == self._limit:
            self._done()
            if self.stop:
                raise SystemExit(0)

    def _introduce(self, optimizer: Optimizer) -> None:
        number = self._optimizers[id(optimizer)] = len(self._optimizers)
        parameters = _parameters(optimizer)
        found = survey(parameters, self._root)
        self._buffers[number] = list(found.buffers.values())
        wrapped = self._collectives.wrapped
        self._emit(
            "optimizer",
            optimizer=number,
            type=type(optimizer).__name__,
            names=[found.names.get(id(p), f"#{at}") for at, p in enumerate(parameters)],
            params=_read([_packed(parameters)])[0],
            batch_norm=found.batch_norm,
            buffers=list(found.buffers),
            settings=found.settings(),
            places=[wrapped.get(id(p), "outside") for p in parameters],
            wrapped=bool(wrapped),
            options=[{} for _ in parameters],
        )


def _parameters(optimizer: Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _packed(tensors: Sequence[torch.Tensor | None]) -> list[torch.Tensor]:
    """Norms and sums, on each tensor's device; zero of what is absent or divided among ranks."""
    with torch.no_grad():
        found = []
        for tensor in tensors:
            if tensor is None or is_divided(tensor) or not tensor.numel():
                found += [torch.zeros(()), torch.zeros(())]
                continue
            plain = local(tensor)
            plain = plain if plain.is_floating_point() else plain.double()
            found += [torch.linalg.vector_norm(plain), plain.sum()]
        return found


def _read(parts: Sequence[list[torch.Tensor]]) -> list[list[tuple[float, float]]]:
    """The numbers of all parts with one copy from each device."""
    flat = [tensor for part in parts for tensor in part]
    numbers = [0.0] * len(flat)
    for device in {tensor.device for tensor in flat}:
        places = [at for at, tensor in enumerate(flat) if tensor.device == device]
        values = torch.stack([flat[at].double() for at in places]).tolist()
        for at, value in zip(places, values, strict=True):
            numbers[at] = value
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    found = []
    for part in parts:
        found.append(pairs[: len(part) // 2])
        pairs = pairs[len(part) // 2 :]
    return found
