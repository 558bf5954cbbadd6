"""The model: trained on all ranks, and otherwise the module that it was."""

import functools
import itertools
import sys
from collections.abc import Iterable, Sequence

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import is_lazy

from ddpify.runtime.batchnorm import SyncedBatchNorm, synchronise_batch_norm
from ddpify.runtime.blocks import repeated_blocks
from ddpify.runtime.broadcasting import broadcast
from ddpify.runtime.buffers import broadcast_buffers
from ddpify.runtime.inputs import move_inputs as let_move_inputs
from ddpify.runtime.instancenorm import track_over_ranks
from ddpify.runtime.lazy_layers import has_lazy_layers
from ddpify.runtime.materialising import Initialiser, Materialiser, is_on_meta
from ddpify.runtime.memory import Footprint, device_memory, explained, footprint
from ddpify.runtime.precision import autocast_forward, dtype_of
from ddpify.runtime.process import device, is_main, kept, rank, world_size
from ddpify.runtime.recomputation import recompute_blocks
from ddpify.runtime.replication import CommHook, DistributedModule, Reducing, replicate_model
from ddpify.runtime.rng import fork_own_stream
from ddpify.runtime.sharding import fsdp_options, shard_model
from ddpify.runtime.units import ShardedModule, Sharding

STRATEGIES = ("ddp", "fsdp", "auto")


def wrap(
    model: nn.Module,
    *,
    strategy: str = "ddp",
    trained: bool = True,
    sync_batchnorm: bool = True,
    move_inputs: bool = False,
    find_unused_parameters: bool = False,
    static_graph: bool = False,
    bucket_cap_mb: float | None = None,
    gradient_as_bucket_view: bool = False,
    comm_hook: CommHook | None = None,
    comm_state: object = None,
    blocks: Sequence[type[nn.Module]] | None = None,
    mixed_precision: torch.dtype | str | None = None,
    activation_checkpointing: bool = False,
    init_weights: Initialiser | None = None,
    optimizer_states: float = 2.0,
) -> nn.Module:
    """Make the model, in place, train on all ranks as one process would on the global batch.

    Every rank gets rank 0's parameters and buffers. Changes nothing in a plain ``python`` run.
    A collective.

    strategy: "ddp" keeps the whole model on every rank (DistributedDataParallel); "fsdp" divides
    parameters, gradients and optimizer states (FSDP2's ``fully_shard``), and must come before the
    optimizer is made; "auto" is "ddp" where that fits into the device's memory, with
    ``optimizer_states`` tensors for each parameter (2 is Adam's), and says so on stderr.

    trained: whether an optimizer steps its parameters, of which some may be made later, or need a
    gradient later. Else it only gets rank 0's values, and normalises over the global batch.
    sync_batchnorm: normalise with the statistics of the global batch.
    move_inputs: move what the model is called with to its device first, as DataParallel does.
    find_unused_parameters, static_graph, bucket_cap_mb, gradient_as_bucket_view:
    DistributedDataParallel's. comm_hook, comm_state: what it calls to reduce a bucket of gradients,
    ``comm_hook(comm_state, bucket)``, such as a compression of
    ``torch.distributed.algorithms.ddp_comm_hooks``. For "fsdp" they mean nothing.
    blocks: classes of the parts that are gathered one at a time (default: repeated blocks).
    mixed_precision: a dtype, or its name. With "ddp", which takes bfloat16 alone, the forward runs
    under autocast, at one process too, and gives float32; gradients are reduced in the parameters'
    dtype. With "fsdp", parameters are gathered and computed with in it.
    activation_checkpointing: compute the activations of the blocks again in backward, instead
    of keeping them; at one process too.
    init_weights: of a model on the meta device, gives each module values, as ``apply`` would.

    Raises ValueError for another strategy, or an option that it does not have.
    """
    dtype = dtype_of(mixed_precision)
    _check_options(strategy, dtype)
    if isinstance(model, DistributedModule | ShardedModule):
        return model
    world_size()  # an error before init(), whatever the model is
    parts = repeated_blocks(model, blocks)
    if activation_checkpointing:
        recompute_blocks(parts)
    place = _place_of(model)
    if move_inputs:
        let_move_inputs(model, place)
    if strategy == "auto":
        strategy = _chosen(footprint(model, parts, optimizer_states), place)
    known = trained and any(p.requires_grad for p in model.parameters())
    sharded = strategy == "fsdp" and known and world_size() > 1
    filling = Materialiser(place, init_weights) if is_on_meta(model) else None
    if filling is not None and not sharded:
        for part in (*parts, model):  # the order of sharding, in which values are drawn
            filling.fill(part)
    if dtype is not None and known and strategy == "ddp":
        autocast_forward(model, dtype, place.type)
    if world_size() == 1:
        return model
    prepare = functools.partial(_normalise_over_ranks, wanted=sync_batchnorm)
    synced = prepare(model)
    send_buffers = not synced and _has_plain_batch_norm(model)
    fork_own_stream(rank())
    if sharded:
        return _shard(Sharding(model, parts, fsdp_options(place, dtype)), filling, send_buffers)
    if not trained:
        _broadcast([*model.parameters(), *model.buffers()])
        return model
    # Else DistributedDataParallel sends the parameters.
    waits = has_lazy_layers(model) or not known
    held = itertools.chain(model.parameters() if waits else (), model.buffers())
    _broadcast(one for one in held if not is_lazy(one))
    reducing = Reducing(
        find_unused_parameters=find_unused_parameters,
        static_graph=static_graph,
        bucket_cap_mb=bucket_cap_mb,
        gradient_as_bucket_view=gradient_as_bucket_view,
        send_buffers=send_buffers,
        comm_hook=comm_hook,
        comm_state=comm_state,
    )
    return replicate_model(model, reducing, prepare)


def _normalise_over_ranks(model: nn.Module, *, wanted: bool) -> bool:
    """Let layers take the statistics of the global batch; whether its BatchNorm does."""
    if wanted:
        track_over_ranks(model)
    return wanted and synchronise_batch_norm(model)


def _shard(sharding: Sharding, filling: Materialiser | None, send_buffers: bool) -> nn.Module:
    if filling is not None:
        sharding.prepare = filling.fill
    else:
        _broadcast([*sharding.model.parameters(), *sharding.model.buffers()])
    sharding.before_forward = broadcast_buffers if send_buffers else None
    return shard_model(sharding)


def _place_of(model: nn.Module) -> torch.device:
    """The model's device; where it is to be on one, if it is on the meta device."""
    devices = {p.device for p in model.parameters()}
    if len(devices) != 1:
        return torch.device("cpu")
    place = devices.pop()
    return device() if place.type == "meta" else place


def _chosen(held: Footprint, place: torch.device) -> str:
    """The strategy that fits into the smallest rank's memory; rank 0 says why."""
    memory = torch.tensor(device_memory(place))
    if world_size() > 1:
        dist.all_reduce(memory, dist.ReduceOp.MIN)
    if is_main():
        print(f"ddpify: {explained(held, world_size(), int(memory))}", file=sys.stderr)
    return held.choice(world_size(), int(memory))


def unwrap(model: nn.Module) -> nn.Module:
    """The module under a DistributedDataParallel; any other model, as it is."""
    return model.module if isinstance(model, DistributedDataParallel) else model


def _check_options(strategy: str, dtype: torch.dtype | None) -> None:
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy={strategy!r} is none of {', '.join(STRATEGIES)}")
    if strategy != "fsdp" and dtype not in (None, torch.bfloat16):
        raise ValueError(f'mixed_precision={dtype} is for strategy="fsdp": use bfloat16')


def _has_plain_batch_norm(model: nn.Module) -> bool:
    layers = (layer for layer in model.modules() if isinstance(layer, _BatchNorm))
    return any(not isinstance(layer, SyncedBatchNorm | nn.SyncBatchNorm) for layer in layers)


@torch.no_grad()
def _broadcast(tensors: Iterable[torch.Tensor]) -> None:
    for tensor in tensors:
        if tensor.layout is not torch.strided:  # which collectives do not take
            tensor.copy_(broadcast(tensor.detach().cpu()))
            continue
        whole = kept(tensor.detach().contiguous())
        dist.broadcast(whole, src=0)
        if whole.data_ptr() != tensor.data_ptr():
            tensor.copy_(whole)
