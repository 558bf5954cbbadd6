"""Bring the records of all ranks of a torchrun job to rank 0, through the job's own store.

No process group takes part: the script's may be gone, or may be what hangs.
"""

from __future__ import annotations

import datetime
import zlib
from pathlib import Path
from typing import Any

from ddpify.runtime.rendezvous import shared_store

CHUNK = 1 << 20
_KINDS = ("jsonl", "err", "stack")


class Exchange:
    """The part of the store that holds the records.

    Args:
        rank: This process's.
        world_size: Of the job.
        folder: Where the records lie; rank 0's gets those of the others.
    """

    def __init__(self, rank: int, world_size: int, folder: Path) -> None:
        self._rank, self._size, self._folder = rank, world_size, folder
        store = shared_store(rank, datetime.timedelta(seconds=60))
        self._store: Any = _prefixed(store)

    def send(self) -> None:
        """Put this rank's records into the store; rank 0 has its own."""
        if self._rank == 0:
            return
        for kind in _KINDS:
            path = self._folder / f"rank{self._rank}.{kind}"
            data = zlib.compress(path.read_bytes() if path.exists() else b"", 1)
            parts = [data[at : at + CHUNK] for at in range(0, len(data), CHUNK)]
            for at, part in enumerate(parts):
                self._store.set(f"{self._rank}/{kind}/{at}", part)
            self._store.set(f"{self._rank}/{kind}", str(len(parts)))

    def collect(self, timeout: float) -> list[int]:
        """On rank 0: write down what the others sent; the ranks that sent nothing in time."""
        missing = []
        for rank in range(1, self._size):
            try:
                for kind in _KINDS:
                    self._take(rank, kind, timeout)
            except RuntimeError:  # the store's time-out
                missing.append(rank)
        return missing

    def _take(self, rank: int, kind: str, timeout: float) -> None:
        count = self._wait(f"{rank}/{kind}", timeout)
        parts = [self._wait(f"{rank}/{kind}/{at}", timeout) for at in range(int(count))]
        data = zlib.decompress(b"".join(parts))
        (self._folder / f"rank{rank}.{kind}").write_bytes(data)

    def _wait(self, key: str, timeout: float) -> bytes:
        self._store.wait([key], datetime.timedelta(seconds=timeout))
        found: bytes = self._store.get(key)
        return found

    def tell(self, status: int) -> None:
        """On rank 0: let the others end."""
        self._store.set("done", str(status))

    def told(self, timeout: float) -> int | None:
        """On the others: rank 0's exit status; None if it said nothing in time."""
        try:
            return int(self._wait("done", timeout))
        except RuntimeError:
            return None


def _prefixed(store: Any) -> Any:
    import torch.distributed as dist

    return dist.PrefixStore("ddpify/check", store)  # type: ignore[attr-defined]
