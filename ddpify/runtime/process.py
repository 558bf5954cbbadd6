"""The process of one rank: its place among the others, how it starts, fails and ends."""

import atexit
import collections
import datetime
import functools
import logging
import multiprocessing
import os
import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.constants import default_pg_timeout

from ddpify.runtime.failures import end_rank, leave, note_in
from ddpify.runtime.rendezvous import meet, shared_store
from ddpify.runtime.rng import broadcast_device_state, broadcast_random_state

LAUNCH_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class World:
    """Where this process stands: its rank, its rank within the node, how many ranks, its device."""

    rank: int
    local_rank: int
    size: int
    device: torch.device


_world: World | None = None


def join_ranks(timeout: datetime.timedelta | None) -> bool:
    """What start.init() does about ranks; False where it has been done, or is not to be."""
    global _world
    if _world is not None or _in_child():
        return False
    _check_version()
    if not _launched():
        _world = _alone()
        return True
    _check_launch()
    if os.environ["WORLD_SIZE"] == "1":
        _world = _alone()
        return True
    sys.excepthook = end_rank
    _world = _join_group(timeout)
    sys.excepthook = end_rank  # torch has put one around it, which holds back what it prints
    if _world.rank != 0:
        _silence_stdout()
        _silence_logs()
    broadcast_random_state([])
    if _world.device.type != "cpu":
        broadcast_device_state(_world.device)
    # Each has connected to all others by then: one that ends before would break their connections.
    barrier()
    atexit.register(_leave_group)
    return True


def world() -> World:
    """This process's place; RuntimeError in a rank of several before init()."""
    if _world is not None:
        return _world
    if _launched() and os.environ.get("WORLD_SIZE") != "1" and not _in_child():
        raise RuntimeError("call ddpify's init() before anything else of its runtime")
    return _alone()


def rank() -> int:
    """This process's rank, 0 .. world_size() - 1."""
    return world().rank


def local_rank() -> int:
    """This process's rank among those on its node."""
    return world().local_rank


def world_size() -> int:
    """The number of ranks, 1 in a plain ``python`` run."""
    return world().size


def is_main() -> bool:
    """Whether this is rank 0."""
    return world().rank == 0


def device(asked: str | int | torch.device | None = None) -> torch.device:
    """This rank's device: the accelerator with index ``LOCAL_RANK``, or the CPU.

    asked: what the script's user chose, as ``torch.device`` takes it. The CPU stays the CPU, and
    a process that is alone gets the very accelerator; of several ranks each has its own.
    """
    place = world()
    if asked is None or place.device.type == "cpu":
        return place.device
    kind = place.device.type
    named = torch.device(kind, asked) if isinstance(asked, int) else torch.device(asked)
    alone = place.size == 1 and named.type == kind and named.index is not None
    return named if alone or named.type == "cpu" else place.device


@functools.cache
def warn_once(text: str) -> None:
    """Warn on rank 0, the first time that the process says so."""
    if world().rank == 0:
        warnings.warn(text, stacklevel=4)


def barrier() -> None:
    """Wait until every rank is here."""
    if world().size > 1:
        # A reduction on the CPU holds the host itself; an accelerator's barrier may hold its
        # stream only.
        dist.all_reduce(kept(torch.zeros(1)))


def _in_child() -> bool:
    """Whether this is a worker process, which inherits the environment of a rank and is none."""
    # A spawned one imports the main module before it knows its parent: multiprocessing itself then
    # goes by this attribute.
    importing_main = getattr(multiprocessing.current_process(), "_inheriting", False)
    return multiprocessing.parent_process() is not None or importing_main


def _launched() -> bool:
    return "RANK" in os.environ or "WORLD_SIZE" in os.environ


def _check_version() -> None:
    if not hasattr(torch, "accelerator"):  # it came with 2.6; compiled models go wrong before that
        raise RuntimeError(f"this script needs torch 2.6 or later, and this is {torch.__version__}")


def _check_launch() -> None:
    missing = [name for name in LAUNCH_VARIABLES if not os.environ.get(name)]
    if missing:
        raise RuntimeError(
            f"this looks like one rank of several, but {', '.join(missing)} is not set in the "
            "environment; start the script with `torchrun --standalone --nproc-per-node=N SCRIPT`, "
            "which sets them all, or unset RANK and WORLD_SIZE to run as a single process"
        )
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT"):
        if not os.environ[name].isdecimal():
            raise RuntimeError(f"{name}={os.environ[name]!r} in the environment is not a number")


def _accelerator() -> str | None:
    """The kind of accelerator that this machine has, as in ``torch.device(kind)``, or None."""
    if not torch.accelerator.is_available():
        return None
    kind = torch.accelerator.current_accelerator()
    return None if kind is None else kind.type


def _shares_devices() -> bool:
    """Whether ranks may share an accelerator, which gloo allows and NCCL does not."""
    backend = os.environ.get("DDPIFY_BACKEND", "")
    if backend not in ("", "gloo"):
        raise RuntimeError(f"DDPIFY_BACKEND={backend!r} in the environment: it may be gloo")
    return backend == "gloo"


def _check_accelerators(accelerator: str | None) -> None:
    if accelerator is None:
        return
    count = torch.get_device_module(accelerator).device_count()
    ranks_here = int(os.environ.get("LOCAL_WORLD_SIZE") or int(os.environ["LOCAL_RANK"]) + 1)
    if ranks_here > count and not _shares_devices():
        raise RuntimeError(
            f"{ranks_here} ranks were started on this node, which has {count} {accelerator} "
            "device(s); start at most one rank a device (torchrun's --nproc-per-node), or hide the "
            "devices to train on the CPU (CUDA_VISIBLE_DEVICES=), or let ranks share them, to try "
            "something out (DDPIFY_BACKEND=gloo)"
        )


def _alone() -> World:
    kind = _accelerator()
    return World(0, 0, 1, torch.device(kind, 0) if kind else torch.device("cpu"))


def _join_group(timeout: datetime.timedelta | None) -> World:
    accelerator = _accelerator()
    if accelerator == "mps":  # it has no collectives
        accelerator = None
    _check_accelerators(accelerator)
    if timeout is None and os.environ.get("DDPIFY_TIMEOUT"):
        timeout = datetime.timedelta(seconds=float(os.environ["DDPIFY_TIMEOUT"]))
    local_rank = int(os.environ["LOCAL_RANK"])
    backend, place = "gloo", torch.device("cpu")
    options: dict[str, Any] = {"timeout": timeout}
    if accelerator is not None:
        module = torch.get_device_module(accelerator)
        place = torch.device(accelerator, local_rank % module.device_count())
        # Before the group: what its backend sets up would else be on device 0 for every rank.
        module.set_device(place.index)
        if not _shares_devices():
            options["device_id"] = place
            backend = f"cpu:gloo,{accelerator}:{_collectives(accelerator)}"
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    options["store"] = _meet(rank, size, timeout or default_pg_timeout)
    dist.init_process_group(backend, rank=rank, world_size=size, **options)
    return World(rank, local_rank, size, place)


def _meet(rank: int, size: int, timeout: datetime.timedelta) -> Any:
    """The store of this start's ranks, once all have come."""
    store = meet(shared_store(rank, timeout), rank, size, timeout)
    store.set_timeout(timeout)
    note_in(store)
    return store


def _collectives(kind: str) -> str:
    """The backend for an accelerator's collectives."""
    return "nccl" if kind == "cuda" else dist.get_default_backend_for_device(kind)


_recent: collections.deque[torch.Tensor] = collections.deque(maxlen=4)


def kept(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, kept alive until later collectives are done.

    Gloo's threads drop a collective's tensors a moment after it is done. Where theirs is the
    last reference, they need Python's lock for it, and at the end of the process that moment
    may be too late: the interpreter is gone, or waits for the thread while it holds the lock.
    """
    if tensor.device.type == "cpu":
        _recent.append(tensor)
    return tensor


def _leave_group() -> None:
    if dist.is_initialized():
        leave()
        time.sleep(0.01)  # lets go of the lock, for a thread that drops what kept() did not see
        dist.destroy_process_group()


def _silence_logs() -> None:
    """Let rank 0 alone log: what the others would say is the same."""
    logging.disable(logging.WARNING)
    os.environ.setdefault("WANDB_MODE", "disabled")


def _silence_stdout() -> None:
    # What is still buffered was printed on every rank: unflushed, it is printed by rank 0 alone.
    sink = open(os.devnull, "w")  # noqa: SIM115 (it stays open)
    os.dup2(sink.fileno(), 1)
    sys.stdout = sink
