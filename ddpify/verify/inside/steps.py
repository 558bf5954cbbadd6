"""The optimizer's steps, with what leads to each: batches, losses, gradients, rates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from ddpify.verify.inside import calls, dropout
from ddpify.verify.inside.by_hand import Mark, Parameters, UpdatesByHand
from ddpify.verify.inside.collectives import Collectives
from ddpify.verify.inside.fingerprint import fingerprint, is_divided
from ddpify.verify.inside.forwards import Forwards
from ddpify.verify.inside.gradients import Gradients
from ddpify.verify.inside.loaders import Loaders
from ddpify.verify.inside.loss_inputs import LossInputs
from ddpify.verify.inside.patching import replace
from ddpify.verify.inside.randomness import states
from ddpify.verify.inside.script_tensors import ScriptTensors
from ddpify.verify.inside.state import state_marks
from ddpify.verify.inside.survey import Survey, state, survey
from ddpify.verify.launch.job import Job

MAX_LOSSES = 256
MAX_FACTORS = 6
_FACTORS = ("DivBackward0", "MulBackward0")


class StopAfterSteps(SystemExit):
    """Raised in the step that reaches the asked number of steps; ends the script like
    ``sys.exit()``."""


class Steps:
    """Watches the optimizers, backward, clipping and the models' forward.

    Args:
        emit: Takes each event: a kind and its values.
        job: The number of steps recorded in full, and whether to end there.
        loaders: Told which batches are trained on.
        collectives: Asked what wrapped models do.

    Attributes:
        count: Steps so far.
        stepping: Called before each step.
    """

    def __init__(
        self,
        emit: Callable[..., None],
        job: Job,
        loaders: Loaders,
        collectives: Collectives,
    ) -> None:
        self._emit, self._loaders, self._collectives = emit, loaders, collectives
        self._folder = job.root
        self._gradients = Gradients()
        self._loss_inputs = LossInputs(lambda: self._open)
        self._script_tensors = ScriptTensors(job.root)
        self._limit, self._stop, self._checking = job.steps, job.stop, job.checking
        self.count = 0
        self.stepping: Callable[[], None] = lambda: None
        self._optimizers: dict[int, int] = {}
        self._kept: list[Optimizer | Parameters] = []
        self._by_hand = UpdatesByHand()
        self._forwards = Forwards(lambda: self._open, self._called)
        self._surveys: dict[int, Survey] = {}
        self._others: dict[str, Mark] = {}
        self._started: list[Optimizer] = []
        self._forget_backwards()
        self._rates: list[float] = []
        self._cleared = False
        self._dropped = self._zeroed = 0
        self._grads: list[Mark | None] = []
        self._used: list[Mark | None] = []
        self._arrived: list[Mark | None] = []
        self._before: list[Mark] | None = None
        self._after: dict[int, list[Mark]] = {}

    def _forget_backwards(self) -> None:
        """Begin a step, before which no backward pass and no clipping has been seen."""
        self._losses: list[list[float]] = []
        self._roots: list[str] = []
        self._backwards: list[int] = []
        self._synchronised: list[bool] = []
        self._clips: list[tuple[str, float, int, int]] = []

    def install(self) -> None:
        """Hook all of it."""
        register_optimizer_step_pre_hook(self._before_step)
        register_optimizer_step_post_hook(self._after_step)
        self._watch_backward()
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            self._watch_clipping(name)
        self._forwards.install()
        self._gradients.install()
        self._collectives.reducing = self._gradients.before_collective
        if not self._checking:
            self._loss_inputs.install()

    def _watch_backward(self) -> None:
        real = torch.autograd.backward

        def backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
            self._loaders.trained()
            if self._collectives.wrapped:
                self._collectives.note("backward")
            if self._open and len(self._losses) < MAX_LOSSES:
                given = list(_each(tensors))
                self._losses.append([_number(tensor) for tensor in given])
                self._roots += [_root(tensor) for tensor in given]
                self._backwards.append(self._collectives.forwards)
                self._synchronised.append(self._collectives.synchronised)
                self._collectives.forwards = 0
            real(tensors, *args, **kwargs)
            self._zeroed = self._zero_grads()
            if self._open and not self._checking:
                self._gradients.after_backward()
            if self._open and not self._started:
                self._by_hand.after_backward(self._gradients.unclipped, self._collectives.caller)

        replace(torch.autograd, "backward", backward)

    def _called(self, module: torch.nn.Module) -> None:
        if self.note_update() and self._stop and not self._open:
            raise StopAfterSteps(0)
        self._by_hand.called(module)
        if not self._forwards.rows and not self._checking:
            self._script_tensors.before_forward()

    def note_update(self) -> bool:
        """Write down an update that the script has made itself as a step; whether there is one."""
        update = self._by_hand.take()
        if update is None:
            return False
        if id(update.owner) not in self._optimizers:
            self._introduce(update.owner, update.before)
        self._rates, self._grads, self._before = [], update.grads, update.before
        self._arrived, self._used = [], []
        self._write_step(update.owner, update.at)
        self.count += 1
        return True

    def _watch_clipping(self, name: str) -> None:
        real = getattr(torch.nn.utils, name)

        def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            given = list(_each(parameters))
            if self._open:
                limit = args[0] if args else kwargs.get("max_norm", kwargs.get("clip_value", 0.0))
                self._clips.append((name, float(limit), len(self._losses), len(given)))
                self._gradients.before_clipping(given)
            return real(given, *args, **kwargs)

        replace(torch.nn.utils, name, clip)
        replace(torch.nn.utils.clip_grad, name, clip)

    @property
    def _open(self) -> bool:
        return self.count < self._limit

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        # A step may call another one (a wrapper's does): only the outer one counts.
        self._started.append(optimizer)
        self.stepping()
        self._by_hand.stop()
        if len(self._started) > 1 or not self._open:
            return
        if id(optimizer) not in self._optimizers:
            self._introduce(optimizer, [fingerprint(p) for p in _parameters(optimizer)])
        self._rates = [float(group["lr"]) for group in optimizer.param_groups if "lr" in group]
        parameters = list(_parameters(optimizer))
        self._grads = [self._gradients.unclipped(parameter) for parameter in parameters]
        self._arrived = [self._gradients.arrived(parameter) for parameter in parameters]
        self._used = [self._gradients.used(p) for p in parameters] if self._clips else []
        before = [fingerprint(parameter) for parameter in parameters]
        self._look_at_others(optimizer)
        self._cleared = bool(self._losses) and self._zero_grads() > self._zeroed
        # Of a divided parameter, other ranks' rows may have changed.
        divided = any(is_divided(parameter) for parameter in parameters)
        unchanged = before == self._after.get(id(optimizer)) and not divided
        self._before = None if unchanged else before

    def _look_at_others(self, optimizer: Optimizer) -> None:
        """Models outside of the optimizer, and tensors that have outlived a step, before the step:
        an average of the weights follows the step before."""
        found = self._surveys[self._optimizers[id(optimizer)]]
        self._others = {
            f"{name}.{key}": fingerprint(tensor)
            for name, model in found.others.items()
            for key, tensor in state(model).items()
        }
        self._script_tensors.before_step()

    @staticmethod
    def _zero_grads() -> int:
        """How often gradients were cleared so far."""
        return sum(n for name, n in calls.counted.items() if name.endswith(".zero_grad"))

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._started.pop()
        if self._started:
            return
        if self._open:
            self._write_step(optimizer, self._collectives.caller())
        self.count += 1
        if self._stop and self.count >= self._limit:
            raise StopAfterSteps(0)

    def _write_step(self, optimizer: Optimizer | Parameters, at: str) -> None:
        params = self._after[id(optimizer)] = [fingerprint(p) for p in _parameters(optimizer)]
        number = self._optimizers[id(optimizer)]
        self._emit(
            "step",
            optimizer=number,
            lr=self._rates,
            before=self._before,
            params=params,
            grads=self._grads,
            arrived=self._arrived,
            used=self._used,
            changed_early=self._gradients.changed_early,
            losses=self._losses,
            rows=self._forwards.rows,
            row_size=self._forwards.row_size,
            columns=self._forwards.columns,
            column_size=self._forwards.column_size,
            items=self._forwards.items,
            forwards=self._backwards,
            synchronised=self._synchronised,
            clips=self._clips,
            buffers=[fingerprint(buffer) for buffer in self._surveys[number].buffers.values()],
            others=self._others,
            kept=self._script_tensors.kept,
            carried=self._script_tensors.carried,
            predictions=self._loss_inputs.predictions,
            targets=self._loss_inputs.targets,
            pairs=self._loss_inputs.pairs,
            evaluating=self._surveys[number].evaluating(),
            cleared=self._cleared,
            drops=dropout.active > self._dropped,
            rng=states(),
            at=at,
            divided=[is_divided(p) for p in _parameters(optimizer)],
            roots=self._roots,
            calls=calls.counted,
            module_read=self._collectives.module_read,
        )
        if self._checking and isinstance(optimizer, Optimizer):
            self._emit("state", optimizer=number, marks=state_marks(optimizer))
        self._begin_step()

    def _begin_step(self) -> None:
        """Forget what came before the last step."""
        self._forget_backwards()
        for watched in (self._gradients, self._loss_inputs, self._forwards):
            watched.reset()
        self._collectives.module_read = False
        self._dropped = dropout.active

    def _introduce(self, optimizer: Optimizer | Parameters, before: list[Mark]) -> None:
        number = self._optimizers[id(optimizer)] = len(self._optimizers)
        self._kept.append(optimizer)  # its id stays its own
        parameters = list(_parameters(optimizer))
        found = self._surveys[number] = survey(parameters, self._folder)
        self._emit(
            "optimizer",
            optimizer=number,
            type=type(optimizer).__name__,
            names=[
                found.names.get(id(parameter), f"#{at}") for at, parameter in enumerate(parameters)
            ],
            params=before,
            divided=[is_divided(parameter) for parameter in parameters],
            batch_norm=found.batch_norm,
            buffers=list(found.buffers),
            settings=found.settings(),
            places=[self._collectives.wrapped.get(id(p), "outside") for p in parameters],
            wrapped=bool(self._collectives.wrapped),
            options=[*_options(optimizer)],
        )


def _parameters(optimizer: Optimizer | Parameters) -> Iterator[torch.Tensor]:
    for group in optimizer.param_groups:
        yield from group["params"]


def _options(optimizer: Optimizer | Parameters) -> Iterator[dict[str, float]]:
    """The options of each parameter that are numbers, its learning rate aside."""
    for group in optimizer.param_groups:
        numbers = {
            f"{name}[{at}]" if len(values) > 1 else name: float(value)
            for name, values in ((name, [*_several(value)]) for name, value in group.items())
            for at, value in enumerate(values)
            if isinstance(value, (int, float)) and not name.endswith("lr")
        }
        yield from (numbers for _ in group["params"])


def _several(value: Any) -> Iterator[Any]:
    """The items of a tuple such as Adam's ``betas``; any other value alone."""
    yield from value if isinstance(value, tuple) else (value,)


def _each(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    else:
        yield from value


def _root(tensor: Any) -> str:
    """The last operations of a loss: factors, and what they were put on."""
    node: Any = tensor.grad_fn
    names: list[str] = []
    while node is not None and len(names) < MAX_FACTORS:
        names.append(type(node).__name__)
        if names[-1] not in _FACTORS or not node.next_functions:
            break
        node = next((inner for inner, _ in node.next_functions if inner is not None), None)
    return " ".join(names)


def _number(tensor: Any) -> float:
    with torch.no_grad():
        return float(tensor.detach().double().sum())
