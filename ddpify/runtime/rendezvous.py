"""How the ranks of one start find each other, and nobody else.

torchrun keeps one store over all its restarts, with what former ranks left in it: addresses where
nobody listens any more, notes of failures. So the ranks of each start agree on a name of their own
in the store before they use it. Numbers of restarts would not do: each node counts its own.
"""

import datetime
import os
import time
import uuid
from collections.abc import Iterable
from typing import Any

import torch.distributed as dist

_PAUSE = 0.01  # seconds between two looks of rank 0 at the others
_MARGIN = 2.0  # seconds by which the others outwait rank 0, which knows who is missing
_NAME = "ddpify/start"
_REMEDY = (
    "start the same script on every node, with the same WORLD_SIZE, MASTER_ADDR and MASTER_PORT, "
    "and see that the nodes reach each other (`ddpify doctor`); DDPIFY_TIMEOUT gives them more time"
)


def shared_store(rank: int, timeout: datetime.timedelta) -> Any:
    """The store that the launch variables name: torchrun's, else one that rank 0 keeps.

    Does not wait for the other ranks: meet() does, and knows which have not come.
    Raises RuntimeError where nobody answers within ``timeout``.
    """
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    by_launcher = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == str(True)
    try:
        return dist.TCPStore(  # type: ignore[attr-defined]
            host,
            port,
            is_master=rank == 0 and not by_launcher,
            timeout=timeout,
            wait_for_workers=False,
            multi_tenant=not by_launcher,
            use_libuv=os.environ.get("USE_LIBUV", "1") == "1",  # torch's own switch
        )
    except dist.DistError as error:
        owner = "the store of torchrun" if by_launcher else "rank 0"
        if rank == 0 and not by_launcher:
            owner = "this rank"  # the port is taken, or the address another machine's
        raise RuntimeError(
            f"the ranks did not meet: {owner} cannot be reached at {host}:{port}, as MASTER_ADDR "
            f"and MASTER_PORT say, within {timeout.total_seconds():g} seconds ({error}); {_REMEDY}"
        ) from error


def meet(store: Any, rank: int, size: int, timeout: datetime.timedelta) -> Any:
    """A part of the store that belongs to the ranks of this start alone, once all have come.

    Raises RuntimeError, on all ranks that have come, where others have not within ``timeout``.
    """
    until = time.monotonic() + timeout.total_seconds()
    words = f"to init() within {timeout.total_seconds():g} seconds"
    if rank == 0:
        name = f"{_NAME}/{uuid.uuid4().hex}"
        missing = _call(store, name, list(range(1, size)), until)
        came = [other for other in range(size) if other not in set(missing)]
        error = f"{_ranks(missing)} did not come {words}, {_ranks(came)} did" if missing else ""
        store.set(f"{name}/error", error)
        if error:
            _let_read(store, name, len(came) - 1)
    else:
        name, error = _answer(store, rank, until + _MARGIN, f"rank 0 did not come {words}")
    if error:
        raise RuntimeError(f"the ranks did not meet: {error}; {_REMEDY}")
    return dist.PrefixStore(name, store)  # type: ignore[attr-defined]


def _ranks(ranks: Iterable[int]) -> str:
    """``rank 3``, or ``ranks 0 to 7, 9`` for ascending numbers."""
    runs: list[list[int]] = []
    for one in ranks:
        if runs and one == runs[-1][-1] + 1:
            runs[-1].append(one)
        else:
            runs.append([one])
    parts = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    several = len(runs) > 1 or len(runs[0]) > 1
    return f"rank{'s' if several else ''} {', '.join(parts)}"


def _let_read(store: Any, name: str, others: int) -> None:
    """Wait until the others have read the error: the store may end with this process."""
    until = time.monotonic() + _MARGIN
    while time.monotonic() < until and store.add(f"{name}/read", 0) < others:
        time.sleep(_PAUSE)


def _call(store: Any, name: str, missing: list[int], until: float) -> list[int]:
    """Tell the other ranks the name, and return those that have not come in time.

    A rank is told each time it has come, since a former start's may have come and not been told:
    only who has read the newest answer confirms this start's name.
    """
    answered: dict[int, int] = {}
    while True:
        for other in missing:
            arrival = store.add(f"{_NAME}/arrivals/{other}", 0)
            if arrival != answered.get(other, 0):
                store.set(f"{_NAME}/answers/{other}/{arrival}", name)
                answered[other] = arrival
        missing = [other for other in missing if not store.check([f"{name}/here/{other}"])]
        if not missing or time.monotonic() > until:
            return missing
        time.sleep(_PAUSE)


def _answer(store: Any, rank: int, until: float, error: str) -> tuple[str, str]:
    """The name of this start, and what rank 0 says of it: nothing, or what went wrong."""
    arrival = store.add(f"{_NAME}/arrivals/{rank}", 1)
    name = _wait(store, f"{_NAME}/answers/{rank}/{arrival}", until)
    if name is None:
        return "", error
    store.set(f"{name}/here/{rank}", "")
    said = _wait(store, f"{name}/error", until)
    if said:
        store.add(f"{name}/read", 1)
    return name, error if said is None else said


def _wait(store: Any, key: str, until: float) -> str | None:
    """A key's value once it is there; None where it is not in time."""
    seconds = max(until - time.monotonic(), 0.1)
    try:
        store.wait([key], datetime.timedelta(seconds=seconds))
    except (dist.DistStoreError, dist.DistNetworkError):  # the second: rank 0 kept it, and is gone
        return None
    found: bytes = store.get(key)
    return found.decode()
