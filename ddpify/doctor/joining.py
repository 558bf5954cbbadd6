"""The ranks meet at the store and form a group; who has not come is known by name."""

from __future__ import annotations

import contextlib
import datetime
import os
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

from ddpify.doctor.findings import Finding, error
from ddpify.doctor.rendezvous import agent_hosts_store

AREA = "ranks"
_CONNECT_SECONDS = 10.0
_GROUP_SECONDS = 120.0
_PAUSE = 0.1
_NAMED = 8
"""The most missing ranks that are listed one by one."""

_FIREWALLS = "check ports and firewalls between the nodes, and GLOO_SOCKET_IFNAME"
_NO_STORE = ("Ping failed", "validate", "Broken pipe", "Connection reset", "likely closed")
"""What PyTorch says of a server that does not speak its protocol."""
_LEFT = ("Broken pipe", "Connection reset", "likely closed", "recv, got 0 bytes")


@dataclass(frozen=True)
class Place:
    """Where this process stands among the ranks, as the launcher has told it."""

    rank: int
    size: int
    local_rank: int

    @staticmethod
    def of(env: Mapping[str, str]) -> Place:
        """From RANK, WORLD_SIZE and LOCAL_RANK, which must be numbers."""
        return Place(*(int(env[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")))


def join(place: Place, device: torch.device, wait: float) -> Finding | None:
    """Form the process group of all ranks; the reason where that fails, in one sentence.

    ``wait``: seconds that ranks which have come wait for the others.
    """
    with _without_traces():
        try:
            store = _store(os.environ, place)
        except RuntimeError as raised:
            return _no_store(raised)
        try:
            failure = _meet(store, place, wait)
            if failure is None:
                _form(store, place, device)
            return failure
        except (RuntimeError, ValueError) as raised:
            return explained(raised)


def _form(store: Store, place: Place, device: torch.device) -> None:
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
        store=PrefixStore("group", store),
        rank=place.rank,
        world_size=place.size,
        timeout=datetime.timedelta(seconds=_GROUP_SECONDS),
    )


@contextlib.contextmanager
def _without_traces() -> Iterator[None]:
    """Leave out what PyTorch's C++ writes to stderr: a trace for each attempt to connect."""
    own = os.dup(2)
    with tempfile.TemporaryFile() as unread:
        os.dup2(unread.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(own, 2)
            os.close(own)


def _store(env: Mapping[str, str], place: Place) -> Store:
    """The store at MASTER_ADDR: torchrun's, or one that rank 0 serves from here on."""
    host, port = env["MASTER_ADDR"], int(env["MASTER_PORT"])
    store = TCPStore(
        host,
        port,
        is_master=place.rank == 0 and not agent_hosts_store(env),
        wait_for_workers=False,
        timeout=datetime.timedelta(seconds=_CONNECT_SECONDS),
    )
    # torchrun's store outlives the processes that it starts anew.
    return PrefixStore(f"doctor/{env.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


def _meet(store: Store, place: Place, wait: float) -> Finding | None:
    """Wait until all ranks have come: without it, the group's own wait names nobody."""
    if store.add(f"came/{place.rank}", 1) > 1:
        message = f"two processes have RANK={place.rank}; the second is on {socket.gethostname()}"
        return error(AREA, message, "give each process a rank of its own, from 0 to WORLD_SIZE-1")
    end = time.monotonic() + wait
    missing = list(range(place.size))
    while True:
        missing = [rank for rank in missing if not store.check([f"came/{rank}"])]
        if not missing:
            return None
        if time.monotonic() > end:
            break
        time.sleep(_PAUSE)
    named = ", ".join(map(str, missing[:_NAMED])) + (", ..." if len(missing) > _NAMED else "")
    message = f"{len(missing)} of {place.size} ranks have not come within {wait:g} s"
    remedy = "start doctor on every node, and see what it says there"
    return error(AREA, f"{message}: rank {named}", remedy)


def _no_store(raised: Exception) -> Finding:
    """Something has answered at the address, or connecting had failed before."""
    text = str(raised).splitlines()[0]
    if any(sign in text for sign in _NO_STORE):
        message = "another program than PyTorch answers at MASTER_ADDR:MASTER_PORT"
        return error(AREA, message, "set MASTER_PORT to a free port, the same for all ranks")
    return error(AREA, f"the store at MASTER_ADDR:MASTER_PORT fails: {text}", _FIREWALLS)


def explained(raised: Exception) -> Finding:
    """What PyTorch raised while the ranks were connected, without its C++ trace."""
    text = str(raised).splitlines()[0]
    if any(sign in text for sign in _LEFT):
        return error(AREA, "rank 0 has gone, and with it the store", "see what rank 0 says")
    return error(AREA, f"the group failed: {text}", _FIREWALLS)
