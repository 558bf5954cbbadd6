"""Record locally, on each rank, what training did. No collective is added, so recording cannot
hang."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterator
from typing import Any

import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from ddpify.verify.fingerprint import fingerprint, rows
from ddpify.verify.patching import faked, replace
from ddpify.verify.world import World

MAX_ROWS = 4096
MAX_LOSSES = 256


class StopAfterSteps(SystemExit):
    """Raised in the step that reaches the asked number of steps; ends the script like
    ``sys.exit()``."""


class Recorder:
    """Writes one JSON object a line to ``path``.

    Args:
        path: The rank's file of events.
        world: Its counter of work.
        limit: Steps recorded in full; later ones are only counted.
        stop: End the script at the limit.
    """

    def __init__(self, path: str, world: World, *, limit: int, stop: bool) -> None:
        self._out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        self._world = world
        self._limit, self._stop = limit, stop
        self._steps = 0
        self._optimizers: dict[int, int] = {}
        self._kept: list[Optimizer] = []
        self._losses: list[list[float]] = []
        self._rows: list[float] = []
        self._row_size = 0
        self._clipped: dict[int, tuple[float, float]] = {}
        self._depth = 0
        self._started: list[Optimizer] = []
        self._grads: list[tuple[float, float] | None] = []
        self._before: list[tuple[float, float]] | None = None
        self._after: dict[int, list[tuple[float, float]]] = {}

    def emit(self, kind: str, **values: Any) -> None:
        """Append one event and hand it to the operating system."""
        os.write(self._out, (json.dumps({"event": kind, **values}) + "\n").encode())

    def install(self) -> None:
        """Hook the optimizers, backward, clipping and the models' forward."""
        register_optimizer_step_pre_hook(self._before_step)
        register_optimizer_step_post_hook(self._after_step)
        self._watch_backward()
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            self._watch_clipping(name)
        module = torch.nn.modules.module
        module.register_module_forward_pre_hook(self._enter_module)
        module.register_module_forward_hook(self._leave_module, always_call=True)

    def finish(self) -> None:
        """The totals, when the script has ended."""
        self.emit("end", steps=self._steps, work=self._world.work, faked=dict(faked))

    def _watch_backward(self) -> None:
        real = torch.autograd.backward

        def backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
            if self._open and len(self._losses) < MAX_LOSSES:
                self._losses.append([_number(tensor) for tensor in _each(tensors)])
            real(tensors, *args, **kwargs)

        replace(torch.autograd, "backward", backward)

    def _watch_clipping(self, name: str) -> None:
        """Clipping hides a gradient's scale: keep the gradient that is handed to it."""
        real = getattr(torch.nn.utils, name)

        def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            given = list(_each(parameters))
            if self._open:
                for parameter in given:
                    if parameter.grad is not None:
                        self._clipped[id(parameter)] = fingerprint(parameter.grad)
            return real(given, *args, **kwargs)

        replace(torch.nn.utils, name, clip)
        replace(torch.nn.utils.clip_grad, name, clip)

    @property
    def _open(self) -> bool:
        return self._steps < self._limit

    def _enter_module(self, module: torch.nn.Module, args: tuple[Any, ...]) -> None:
        self._depth += 1
        outermost = self._depth == 1 and self._open and len(self._rows) < MAX_ROWS
        if not outermost or not (module.training and torch.is_grad_enabled()):
            return
        if next(module.parameters(), None) is None:
            return
        first = next((value for value in args if isinstance(value, torch.Tensor)), None)
        if first is not None and first.dim() and not first.is_complex():
            self._rows += rows(first)
            self._row_size = first[0].numel() if len(first) else self._row_size

    def _leave_module(self, module: torch.nn.Module, args: Any, result: Any) -> None:
        self._depth -= 1

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        # A step may call another one (a wrapper's does): only the outer one counts.
        self._started.append(optimizer)
        if len(self._started) > 1 or not self._open:
            return
        if id(optimizer) not in self._optimizers:
            self._introduce(optimizer)
        self._grads = [self._gradient(parameter) for parameter in _parameters(optimizer)]
        before = [fingerprint(parameter) for parameter in _parameters(optimizer)]
        self._before = None if before == self._after.get(id(optimizer)) else before

    def _gradient(self, parameter: torch.Tensor) -> tuple[float, float] | None:
        if id(parameter) in self._clipped:
            return self._clipped[id(parameter)]
        return None if parameter.grad is None else fingerprint(parameter.grad)

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._started.pop()
        if self._started:
            return
        if self._open:
            self._write_step(optimizer)
        self._steps += 1
        if self._stop and self._steps >= self._limit:
            raise StopAfterSteps(0)

    def _write_step(self, optimizer: Optimizer) -> None:
        groups = optimizer.param_groups
        params = self._after[id(optimizer)] = [fingerprint(p) for p in _parameters(optimizer)]
        self.emit(
            "step",
            optimizer=self._optimizers[id(optimizer)],
            lr=[float(group["lr"]) for group in groups if "lr" in group],
            before=self._before,
            params=params,
            grads=self._grads,
            losses=self._losses,
            rows=self._rows[:MAX_ROWS],
            row_size=self._row_size,
        )
        self._losses, self._rows, self._clipped = [], [], {}

    def _introduce(self, optimizer: Optimizer) -> None:
        number = self._optimizers[id(optimizer)] = len(self._optimizers)
        self._kept.append(optimizer)  # its id stays its own
        parameters = list(_parameters(optimizer))
        names, batch_norm = _names()
        self.emit(
            "optimizer",
            optimizer=number,
            type=type(optimizer).__name__,
            names=[names.get(id(parameter), f"#{at}") for at, parameter in enumerate(parameters)],
            params=[fingerprint(parameter) for parameter in parameters],
            batch_norm=batch_norm,
        )


def _parameters(optimizer: Optimizer) -> Iterator[torch.Tensor]:
    for group in optimizer.param_groups:
        yield from group["params"]


def _each(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    else:
        yield from value


def _number(tensor: Any) -> float:
    with torch.no_grad():
        return float(tensor.detach().double().sum())


def _names() -> tuple[dict[int, str], bool]:
    """Names of the parameters of all models alive, and whether one normalises each rank's batch
    alone."""
    modules = [item for item in gc.get_objects() if issubclass(type(item), torch.nn.Module)]
    inner = {id(child) for module in modules for child in module.children()}
    roots = [module for module in modules if id(module) not in inner]
    names: dict[int, str] = {}
    for root in roots:
        for name, parameter in root.named_parameters():
            names.setdefault(id(parameter), _plain(name))
    plain = torch.nn.modules.batchnorm._BatchNorm.forward
    return names, any(getattr(type(module), "forward", None) is plain for module in modules)


def _plain(name: str) -> str:
    """``name`` without the prefixes of wrappers."""
    return ".".join(part for part in name.split(".") if part not in ("module", "_orig_mod")) or name
