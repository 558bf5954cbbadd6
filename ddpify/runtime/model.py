"""The model: gradients averaged over the ranks, and otherwise the module that it was.

A model becomes distributed by a change of its class, in place: attributes, methods,
``isinstance``, the keys of its state dict and every reference to it stay. Its forward goes
through DistributedDataParallel.
"""

import functools
import inspect
from collections.abc import Iterable
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from ddpify.runtime.batchnorm import SyncedBatchNorm, synchronise_batch_norm
from ddpify.runtime.process import rank, world_size
from ddpify.runtime.rng import fork_own_stream, own_seed, own_torch_stream
from ddpify.runtime.share import active_share, inside_forward

ENGINE = "_ddpify_engine"

_forked_devices: set[torch.device] = set()


class GradientEngine(DistributedDataParallel):
    """DistributedDataParallel, and an average of the gradients after any backward that it misses.

    It reduces gradients in the one backward that follows a forward. After another one (a second
    backward, layers called past the model's forward) it would leave each rank with its own
    gradients, in silence.
    """

    def __init__(self, model: nn.Module, **options: Any) -> None:
        """``options`` are DistributedDataParallel's."""
        super().__init__(model, **options)
        self.options = options
        self.trained = [p for p in model.parameters() if p.requires_grad]
        self.frozen = [p for p in model.parameters() if not p.requires_grad]
        self.expects_backward = False
        self.in_backward = False
        self.hooks = [
            p.register_post_accumulate_grad_hook(self._note_backward)  # type: ignore[no-untyped-call]
            for p in _one_per_layer(model)
        ]

    def run(self, *inputs: Any, **kwargs: Any) -> Any:
        """The model's forward on this rank's rows."""
        self.in_backward = False
        with inside_forward():
            if self.device_type != "cpu" or active_share() is None:
                out = self(*inputs, **kwargs)
            else:
                with own_torch_stream():
                    out = self(*inputs, **kwargs)
        self.expects_backward = torch.is_grad_enabled()
        return out

    def retire(self) -> None:
        """Leave the parameters to another engine."""
        for hook in self.hooks:
            hook.remove()

    def _run_ddp_forward(self, *inputs: Any, **kwargs: Any) -> Any:
        # Not through the model's __call__, which is under way: its hooks would run twice.
        with self._inside_ddp_forward():
            return self.module.ddpify_forward(*inputs, **kwargs)

    def _note_backward(self, _: torch.Tensor) -> None:
        if not self.in_backward:
            self.in_backward = True
            torch.autograd.Variable._execution_engine.queue_callback(self._end_backward)

    def _end_backward(self) -> None:
        self.in_backward = False
        if not self.expects_backward:
            # What was in .grad before is the same on all ranks, and so is its own average.
            average(p.grad for p in self.trained if p.grad is not None)
        self.expects_backward = False


class DistributedModule(nn.Module):
    """Mixed in before a model's class: see the module's docstring."""

    ddpify_class: type[nn.Module]

    def ddpify_forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The forward of the model's own class."""
        return self.ddpify_class.forward(self, *inputs, **kwargs)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Without the engine, as the model's own class: what pickles and copies hold."""
        make, args, *rest = cast("tuple[Any, ...]", super().__reduce_ex__(protocol))
        if rest and isinstance(rest[0], dict):
            rest[0] = {key: value for key, value in rest[0].items() if key != ENGINE}
        return make, tuple(self.ddpify_class if a is type(self) else a for a in args), *rest


def wrap(
    model: nn.Module, *, sync_batchnorm: bool = True, find_unused_parameters: bool = False
) -> nn.Module:
    """Make the model, in place, train on all ranks as one process would on the global batch.

    Every rank gets rank 0's parameters and buffers. Batch normalisation layers use the
    statistics of the global batch unless ``sync_batchnorm`` is False;
    ``find_unused_parameters`` is DistributedDataParallel's. Changes nothing in a plain
    ``python`` run. A collective.
    """
    if world_size() == 1 or isinstance(model, DistributedModule):
        return model
    synced = sync_batchnorm and synchronise_batch_norm(model)
    if not any(p.requires_grad for p in model.parameters()):
        _broadcast([*model.parameters(), *model.buffers()])
        return model
    _broadcast(model.buffers())
    devices = {p.device for p in model.parameters()}
    _fork_generators(devices)
    place = devices.pop() if len(devices) == 1 else torch.device("cpu")
    options = {
        "device_ids": None if place.type == "cpu" else [place.index],
        "find_unused_parameters": find_unused_parameters,
        _buffers_option(): not synced and _has_plain_batch_norm(model),
    }
    model.__dict__[ENGINE] = GradientEngine(model, **options)
    model.__class__ = _distributed_class(cast(Any, type(model)))
    return model


def unwrap(model: nn.Module) -> nn.Module:
    """The module under a DistributedDataParallel; any other model, as it is."""
    return model.module if isinstance(model, DistributedDataParallel) else model


@torch.no_grad()
def average(grads: Iterable[torch.Tensor]) -> None:
    """Replace each gradient by its mean over the ranks; one all-reduce a dtype (sparse: each)."""
    flat: dict[tuple[torch.dtype, torch.device], list[torch.Tensor]] = {}
    for grad in grads:
        if grad.is_sparse:
            dist.all_reduce(grad)
            grad.div_(world_size())
        else:
            flat.setdefault((grad.dtype, grad.device), []).append(grad)
    for group in flat.values():
        joined = torch.cat([grad.reshape(-1) for grad in group])
        dist.all_reduce(joined)
        joined.div_(world_size())
        parts = torch.split(joined, [grad.numel() for grad in group])
        for grad, part in zip(group, parts, strict=True):
            grad.copy_(part.view_as(grad))


@functools.cache
def _distributed_class(plain: Any) -> Any:
    @functools.wraps(plain.forward)
    def forward(self: nn.Module, *inputs: Any, **kwargs: Any) -> Any:
        return _engine_of(self).run(*inputs, **kwargs)

    names = {
        "ddpify_class": plain,
        "forward": forward,
        "__module__": plain.__module__,
        "__qualname__": plain.__qualname__,
        "__doc__": plain.__doc__,
    }
    return type(plain.__name__, (DistributedModule, plain), names)


def _engine_of(model: nn.Module) -> GradientEngine:
    """The model's engine; a new one when parameters came to be trained that it does not know."""
    engine: GradientEngine = model.__dict__[ENGINE]
    if any(p.requires_grad for p in engine.frozen):
        engine.retire()
        engine = model.__dict__[ENGINE] = GradientEngine(model, **engine.options)
    return engine


def _one_per_layer(model: nn.Module) -> list[nn.Parameter]:
    """The first trained parameter that each layer holds itself: one of them sees every backward."""
    firsts = []
    for layer in model.modules():
        trained = [p for p in layer.parameters(recurse=False) if p.requires_grad]
        firsts += trained[:1]
    return firsts


def _buffers_option() -> str:
    """DistributedDataParallel's switch for sending rank 0's buffers before each forward."""
    accepted = inspect.signature(DistributedDataParallel.__init__).parameters
    return "forward_sync_buffers" if "forward_sync_buffers" in accepted else "broadcast_buffers"


def _has_plain_batch_norm(model: nn.Module) -> bool:
    layers = (layer for layer in model.modules() if isinstance(layer, _BatchNorm))
    return any(not isinstance(layer, SyncedBatchNorm | nn.SyncBatchNorm) for layer in layers)


@torch.no_grad()
def _broadcast(tensors: Iterable[torch.Tensor]) -> None:
    for tensor in tensors:
        whole = tensor.detach().contiguous()
        dist.broadcast(whole, src=0)
        if whole.data_ptr() != tensor.data_ptr():
            tensor.copy_(whole)


def _fork_generators(devices: set[torch.device]) -> None:
    """Give each rank draws of its own on an accelerator, once (the CPU's stream is switched)."""
    for place in devices - _forked_devices:
        if place.type != "cpu":
            fork_own_stream(rank())
            torch.get_device_module(place).manual_seed(own_seed())
            _forked_devices.add(place)
