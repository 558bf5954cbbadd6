"""How the ranks of one start find each other, and nobody else.

torchrun keeps one store over all its restarts, with what former ranks left in it: addresses where
nobody listens any more, notes of failures. So the ranks of each start agree on a name of their own
in the store before they use it. Numbers of restarts would not do: each node counts its own.
"""

import datetime
import time
import uuid
from typing import Any

import torch.distributed as dist

_PAUSE = 0.01  # seconds between two looks of rank 0 at the others
_MARGIN = 2.0  # seconds by which the others outwait rank 0, which knows who is missing
_NAME = "ddpify/start"


def meet(store: Any, rank: int, size: int, timeout: datetime.timedelta) -> Any:
    """A part of the store that belongs to the ranks of this start alone, once all have come.

    Raises RuntimeError, on all ranks that have come, where others have not within ``timeout``.
    """
    until = time.monotonic() + timeout.total_seconds()
    words = f"to init() within {timeout.total_seconds():g} seconds of this one"
    if rank == 0:
        name = f"{_NAME}/{uuid.uuid4().hex}"
        missing = _call(store, name, list(range(1, size)), until)
        error = f"rank {', '.join(map(str, missing))} did not come {words}" if missing else ""
        store.set(f"{name}/error", error)
    else:
        name, error = _answer(store, rank, until + _MARGIN, f"rank 0 did not come {words}")
    if error:
        raise RuntimeError(f"the ranks did not meet: {error}")
    return dist.PrefixStore(name, store)  # type: ignore[attr-defined]


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
    return name, error if said is None else said


def _wait(store: Any, key: str, until: float) -> str | None:
    """A key's value once it is there; None where it is not in time."""
    seconds = max(until - time.monotonic(), 0.1)
    try:
        store.wait([key], datetime.timedelta(seconds=seconds))
    except dist.DistStoreError:
        return None
    found: bytes = store.get(key)
    return found.decode()
