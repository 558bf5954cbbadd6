"""Models that every rank holds whole, with gradients averaged over the ranks.

A model becomes distributed by a change of its class, in place: attributes, methods,
``isinstance``, the keys of its state dict and every reference to it stay. Its forward goes
through DistributedDataParallel.
"""

import copy
import functools
import gc
import inspect
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn
from torch.nn.modules import module as modules
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import is_lazy
from torch.utils.hooks import RemovableHandle

from ddpify.runtime.accumulation import accumulation
from ddpify.runtime.averaging import average_gradients, has_sparse_gradients
from ddpify.runtime.buffers import broadcast_buffers, leave_out_sparse_buffers
from ddpify.runtime.classes import reduced_as, subclass_of
from ddpify.runtime.lazy_layers import has_lazy_layers, share_lazy_layers
from ddpify.runtime.share import inside_forward

ENGINE = "_ddpify_engine"
_ACCEPTED = inspect.signature(DistributedDataParallel.__init__).parameters
CommHook = Callable[[Any, Any], torch.futures.Future[torch.Tensor]]


@dataclass(frozen=True)
class Reducing:
    """How DistributedDataParallel reduces gradients: its own options, and some more.

    Attributes:
        send_buffers: Give all ranks rank 0's buffers before each forward.
        comm_hook: Reduces a bucket in place of an all-reduce; called with ``comm_state`` first.
    """

    find_unused_parameters: bool = False
    static_graph: bool = False
    bucket_cap_mb: float | None = None
    gradient_as_bucket_view: bool = False
    send_buffers: bool = False
    comm_hook: CommHook | None = None
    comm_state: object = None

    @property
    def finds_unused(self) -> bool:
        """Whether a backward may leave out parameters."""
        return self.find_unused_parameters or self.static_graph

    def reducer(self, model: nn.Module, *, alike: bool) -> "ForwardReducer":
        """A DistributedDataParallel of these options, of a model that may be alike on all ranks."""
        # Without device_ids it leaves inputs where they are: sequence lengths stay on the CPU.
        options: dict[str, Any] = {
            "find_unused_parameters": self.find_unused_parameters,
            "static_graph": self.static_graph,
            "bucket_cap_mb": self.bucket_cap_mb,
            "gradient_as_bucket_view": self.gradient_as_bucket_view,
            _buffers_option(): False,
        }
        if alike and "init_sync" in _ACCEPTED:  # a graph may hold the parameters as they are
            options["init_sync"] = False
        leave_out_sparse_buffers(model)
        made = ForwardReducer(model, **options)
        if self.comm_hook is not None:
            made.register_comm_hook(self.comm_state, self.comm_hook)
        return made


class Registrations:
    """Counts the layers and parameters that modules get, and asks models for new ones after it.

    A model's own forward asks by itself. But its layers may be called past it, as those of a list
    of layers are, which has none: so the next forward of any module asks for all models.
    """

    def __init__(self) -> None:
        self.count = 0
        self.models: weakref.WeakValueDictionary[int, nn.Module] = weakref.WeakValueDictionary()
        self.watched = 0
        self.asking: RemovableHandle | None = None

    def note(self, module: nn.Module, name: str, part: object) -> None:
        """One more, of whatever module."""
        self.count += 1
        if self.asking is None:
            self.asking = modules.register_module_forward_pre_hook(self._ask)

    def watch(self, model: nn.Module) -> None:
        """Ask a model from now on."""
        if not self.watched:
            modules.register_module_module_registration_hook(self.note)
            modules.register_module_parameter_registration_hook(self.note)
        self.watched += 1
        self.models[self.watched] = model

    def _ask(self, module: nn.Module, inputs: object) -> None:
        if self.asking is None or not torch.is_grad_enabled():
            return
        self.asking.remove()
        self.asking = None
        engines = {number: model.__dict__.get(ENGINE) for number, model in self.models.items()}
        grown = [n for n, engine in engines.items() if engine is not None and engine.outdated()]
        del engines
        if grown:
            gc.collect()  # other ranks may have freed one that nothing refers to any more
        for model in filter(None, map(self.models.get, grown)):
            _renew(model)


_registrations = Registrations()


class ForwardReducer(DistributedDataParallel):
    """DistributedDataParallel around the forward of a DistributedModule's own class."""

    def _run_ddp_forward(self, *inputs: Any, **kwargs: Any) -> Any:
        # Not through the model's __call__, which is under way: its hooks would run twice.
        with self._inside_ddp_forward():
            return self.module.ddpify_forward(*inputs, **kwargs)


class GradientEngine:
    """Keeps a model's gradients the same on all ranks: their average after every backward.

    DistributedDataParallel does so during the one backward that follows a forward, if every
    parameter gets a gradient in it. What it misses (a second backward, layers called past the
    model's forward, unused parameters), where it would fail or leave each rank with its own
    gradients, is averaged afterwards.
    """

    def __init__(
        self,
        model: nn.Module,
        prepare: Callable[[nn.Module], object],
        reducing: Reducing,
        *,
        alike: bool = False,
    ) -> None:
        """``prepare`` makes new layers ready; ``alike``: all ranks have rank 0's parameters."""
        self.model = model
        self.prepare = prepare
        self.reducing = reducing
        self.trained = [p for p in model.parameters() if p.requires_grad]
        self.frozen = [p for p in model.parameters() if not p.requires_grad]
        self.built = _registrations.count
        self.waits = has_lazy_layers(model)
        share_lazy_layers(model)
        self.reducer: ForwardReducer | None = None
        if self.trained and not self.waits:
            self.reducer = reducing.reducer(model, alike=alike)
        self.reducer_waits = False
        self.learns_graph = reducing.static_graph  # in its first backward, which is exchanged
        self.in_backward = False
        self.arrived = 0
        self.hooks: dict[nn.Parameter, Any] = {}
        self._hook()
        if has_sparse_gradients(model):  # which DistributedDataParallel averages wrongly over gloo
            self._drop_reducer()

    def run(self, *inputs: Any, **kwargs: Any) -> Any:
        """The model's forward on this rank's rows."""
        self.in_backward = False  # a backward that failed did not end
        if self.reducing.send_buffers:
            broadcast_buffers(self.model)
        with inside_forward(_device_of_first(self.model)):
            if self.reducer is None:
                out = self.model.ddpify_forward(*inputs, **kwargs)  # type: ignore[operator]
                self._hook()  # layers that have got their weights
                return out
            exchanging = accumulation.exchanging or self.learns_graph
            self.reducer.require_backward_grad_sync = exchanging
            out = self.reducer(*inputs, **kwargs)
        self.reducer_waits = torch.is_grad_enabled() and exchanging
        return out

    def average(self) -> None:
        """Average the gradients now. A collective."""
        average_gradients(list(self.hooks))

    def outdated(self) -> bool:
        """Whether there are parameters to be trained that it does not know."""
        if any(p.requires_grad for p in self.frozen):
            return True
        if self.waits and not has_lazy_layers(self.model):
            return True
        if self.built == _registrations.count:
            return False
        self.built = _registrations.count
        known = {*self.trained, *self.frozen}
        return any(p not in known for p in self.model.parameters())

    def retire(self) -> None:
        """Leave the parameters to another engine."""
        if self in accumulation.behind:
            del accumulation.behind[self]
            self.average()
        self._drop_reducer()
        for hook in self.hooks.values():
            hook.remove()

    def _hook(self) -> None:
        for p in self.trained:
            if p not in self.hooks and not is_lazy(p):
                hook = p.register_post_accumulate_grad_hook(self._arrive)  # type: ignore[no-untyped-call]
                self.hooks[p] = hook

    def _arrive(self, _: torch.Tensor) -> None:
        if not self.in_backward:
            self.in_backward, self.arrived = True, 0
            torch.autograd.Variable._execution_engine.queue_callback(self._end_backward)
        self.arrived += 1

    def _end_backward(self) -> None:
        waited, self.reducer_waits, self.in_backward = self.reducer_waits, False, False
        self.learns_graph = False
        if not waited and not accumulation.exchanging:
            accumulation.behind[self] = None
            return
        partial = self.arrived < len(self.trained) and not self.reducing.finds_unused
        if waited and partial:
            if self.reducing.gradient_as_bucket_view:
                raise RuntimeError(
                    "gradient_as_bucket_view: some parameters got no gradient, and those that did"
                    " are half averaged; wrap the model with find_unused_parameters=True as well"
                )
            # It has copied back nothing and would refuse the next forward.
            self._drop_reducer()
        if partial or not waited:
            # What was in .grad before is the same on all ranks, and so is its own average; or it is
            # this rank's part of earlier micro-batches.
            self.average()
        accumulation.behind.pop(self, None)
        accumulation.catch_up()

    def _drop_reducer(self) -> None:
        if self.reducer is not None:
            # Its hooks on the parameters go when nothing refers to the reducer within.
            del self.reducer.reducer, self.reducer.logger
            self.reducer = None


def _device_of_first(model: nn.Module) -> torch.device:
    """The device of a model, of which some parameters may not be there yet."""
    first = next(model.parameters(), None)
    return first.device if first is not None else torch.device("cpu")


class DistributedModule(nn.Module):
    """Mixed in before a model's class: see the module's docstring."""

    ddpify_class: type[nn.Module]

    def ddpify_forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The forward of the model's own class."""
        return self.ddpify_class.forward(self, *inputs, **kwargs)

    def __prepare_scriptable__(self) -> nn.Module:
        """What torch.jit.script compiles: the model's own classes, with the same tensors."""
        tensors = [*self.parameters(), *self.buffers()]
        return copy.deepcopy(self, {id(one): one for one in tensors})

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Without the engine, as the model's own class: what pickles and copies hold."""
        make, args, *rest = reduced_as(
            self.ddpify_class, type(self), super().__reduce_ex__(protocol)
        )
        if rest and isinstance(rest[0], dict):
            rest[0] = {key: value for key, value in rest[0].items() if key != ENGINE}
        return make, args, *rest


def replicate_model(
    model: nn.Module, reducing: Reducing, prepare: Callable[[nn.Module], object]
) -> nn.Module:
    """Let DistributedDataParallel average the model's gradients, in place. A collective.

    ``prepare``: what a model with layers that it did not have before goes through, on all ranks.
    """
    _registrations.watch(model)
    model.__dict__[ENGINE] = GradientEngine(model, prepare, reducing)
    model.__class__ = _distributed_class(cast(Any, type(model)))
    return model


class AveragedGradients:
    """Averages the gradients of some tensors over the ranks after each backward."""

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        # They hold this by their hooks: held in turn, what a script lets go would stay.
        self.references = [weakref.ref(parameter) for parameter in parameters]
        self.in_backward = False
        for parameter in parameters:
            parameter.register_post_accumulate_grad_hook(self._arrive)  # type: ignore[no-untyped-call]

    def _arrive(self, _: torch.Tensor) -> None:
        if not self.in_backward:
            self.in_backward = True
            torch.autograd.Variable._execution_engine.queue_callback(self._end_backward)

    def _end_backward(self) -> None:
        self.in_backward = False
        if accumulation.exchanging:
            self.average()
            accumulation.behind.pop(self, None)
        else:
            accumulation.behind[self] = None

    def average(self) -> None:
        """Average the gradients now. A collective."""
        held = (reference() for reference in self.references)
        average_gradients([tensor for tensor in held if tensor is not None])


@functools.cache
def _distributed_class(plain: Any) -> Any:
    @functools.wraps(plain.forward)
    def forward(self: nn.Module, *inputs: Any, **kwargs: Any) -> Any:
        return _engine_of(self).run(*inputs, **kwargs)

    return subclass_of(plain, DistributedModule, ddpify_class=plain, forward=forward)


def _engine_of(model: nn.Module) -> GradientEngine:
    """The model's engine; a new one when parameters came to be trained that it does not know."""
    engine: GradientEngine = model.__dict__[ENGINE]
    return _renew(model) if engine.outdated() else engine


def _renew(model: nn.Module) -> GradientEngine:
    """A new engine for the parameters that a model has now. A collective."""
    engine: GradientEngine = model.__dict__[ENGINE]
    engine.retire()
    engine.prepare(model)
    made = GradientEngine(model, engine.prepare, engine.reducing, alike=engine.waits)
    model.__dict__[ENGINE] = made
    return made


def _buffers_option() -> str:
    """DistributedDataParallel's switch for sending rank 0's buffers before each forward."""
    return "forward_sync_buffers" if "forward_sync_buffers" in _ACCEPTED else "broadcast_buffers"
