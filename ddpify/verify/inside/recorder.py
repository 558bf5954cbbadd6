"""Record locally, on each rank, what training did. No collective is added, so recording cannot
hang."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from ddpify.verify.inside import calls
from ddpify.verify.inside.collectives import Collectives
from ddpify.verify.inside.fingerprint import fingerprint, rows
from ddpify.verify.inside.loaders import Loaders
from ddpify.verify.inside.moves import Moves
from ddpify.verify.inside.patching import devices, faked, replace
from ddpify.verify.inside.randomness import states
from ddpify.verify.inside.replay import Replay
from ddpify.verify.inside.world import World
from ddpify.verify.launch.job import Job

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
        job: What is run: the number of steps recorded in full, and whether to end there.
        replay: The batches that the loaders are to yield.
    """

    def __init__(self, path: str, world: World, job: Job, replay: Replay | None) -> None:
        self._out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        self._world = world
        self._limit, self._stop = job.steps, job.stop
        self._loaders = Loaders(self.emit, replay)
        self._collectives = Collectives(self.emit, job.cwd)
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
        self._rates: list[float] = []
        self._backwards: list[int] = []
        self._roots: list[str] = []
        self._buffers: list[torch.Tensor] = []

    def emit(self, kind: str, **values: Any) -> None:
        """Append one event and hand it to the operating system."""
        os.write(self._out, (json.dumps({"event": kind, **values}) + "\n").encode())

    def install(self) -> None:
        """Hook the optimizers, backward, clipping and the models' forward."""
        self._loaders.install()
        self._collectives.install()
        calls.install()
        Moves(self._collectives.wrapped, self._moved).install()
        register_optimizer_step_pre_hook(self._before_step)
        register_optimizer_step_post_hook(self._after_step)
        self._watch_backward()
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            self._watch_clipping(name)
        module = torch.nn.modules.module
        module.register_module_forward_pre_hook(self._enter_module)
        module.register_module_forward_hook(self._leave_module, always_call=True)

    def _moved(self, how: str) -> None:
        self.emit("moved", how=how, at=self._collectives.caller())

    def finish(self) -> None:
        """The totals, when the script has ended."""
        self.emit("end", steps=self._steps, work=self._world.work, faked=faked, devices=devices)

    def _watch_backward(self) -> None:
        real = torch.autograd.backward

        def backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
            self._loaders.trained()
            if self._collectives.wrapped:
                self._collectives.note("backward")
            if self._open and len(self._losses) < MAX_LOSSES:
                given = list(_each(tensors))
                self._losses.append([_number(tensor) for tensor in given])
                self._roots += [type(tensor.grad_fn).__name__ for tensor in given]
                self._backwards.append(self._collectives.forwards)
                self._collectives.forwards = 0
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
        self._rates = [float(group["lr"]) for group in optimizer.param_groups if "lr" in group]
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
        params = self._after[id(optimizer)] = [fingerprint(p) for p in _parameters(optimizer)]
        self.emit(
            "step",
            optimizer=self._optimizers[id(optimizer)],
            lr=self._rates,
            before=self._before,
            params=params,
            grads=self._grads,
            losses=self._losses,
            rows=self._rows[:MAX_ROWS],
            row_size=self._row_size,
            forwards=self._backwards,
            buffers=[fingerprint(buffer) for buffer in self._buffers],
            rng=states(),
            at=self._collectives.caller(),
            roots=self._roots,
            calls=calls.counted,
            module_read=self._collectives.module_read,
        )
        self._losses, self._rows, self._clipped = [], [], {}
        self._backwards, self._roots, self._collectives.module_read = [], [], False

    def _introduce(self, optimizer: Optimizer) -> None:
        number = self._optimizers[id(optimizer)] = len(self._optimizers)
        self._kept.append(optimizer)  # its id stays its own
        parameters = list(_parameters(optimizer))
        names, batch_norm, buffers = _survey(parameters)
        self._buffers = list(buffers.values())
        self.emit(
            "optimizer",
            optimizer=number,
            type=type(optimizer).__name__,
            names=[names.get(id(parameter), f"#{at}") for at, parameter in enumerate(parameters)],
            params=[fingerprint(parameter) for parameter in parameters],
            batch_norm=batch_norm,
            buffers=list(buffers),
            places=[self._collectives.wrapped.get(id(p), "outside") for p in parameters],
            wrapped=bool(self._collectives.wrapped),
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


def _survey(
    parameters: list[torch.Tensor],
) -> tuple[dict[int, str], bool, dict[str, torch.Tensor]]:
    """Of all models alive: their parameters' names, whether one normalises each rank's batch alone,
    and the buffers of those that hold one of ``parameters``."""
    modules = [item for item in gc.get_objects() if issubclass(type(item), torch.nn.Module)]
    inner = {id(child) for module in modules for child in module.children()}
    roots = [module for module in modules if id(module) not in inner]
    optimized = set(map(id, parameters))
    names: dict[int, str] = {}
    buffers: dict[str, torch.Tensor] = {}
    for root in roots:
        held = {id(parameter): _plain(name) for name, parameter in root.named_parameters()}
        names = {**held, **names}
        if optimized & held.keys():
            buffers |= {_plain(name): buffer for name, buffer in root.named_buffers()}
    plain = BatchNorm.forward
    return names, any(getattr(type(item), "forward", None) is plain for item in modules), buffers


def _plain(name: str) -> str:
    """``name`` without the prefixes of wrappers."""
    return ".".join(part for part in name.split(".") if part not in ("module", "_orig_mod")) or name
