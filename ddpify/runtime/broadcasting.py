"""What rank 0 saw or made up, on all ranks: the time, a new folder, whether a file is there."""

from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.distributed as dist

from ddpify.runtime.process import barrier, is_main, world_size


def broadcast(x: Any) -> Any:
    """Rank 0's object on every rank.

    x: whatever can be pickled; a ``TemporaryDirectory`` is rank 0's on all ranks, and goes once
    all of them leave it. A collective; on one process, x itself.
    """
    if world_size() == 1:
        return x
    if isinstance(x, TemporaryDirectory):
        return _shared_directory(x)
    held = [x]
    dist.broadcast_object_list(held, src=0, device=torch.device("cpu"))
    return held[0]


class SharedDirectory:
    """The temporary folder of rank 0, used as a ``TemporaryDirectory`` on all ranks."""

    def __init__(self, own: "TemporaryDirectory[str]", name: str) -> None:
        self.own = own
        self.name = name

    def __enter__(self) -> str:
        return self.name

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None:
            self.cleanup()
        elif is_main():  # the others may never come
            self.own.cleanup()

    def cleanup(self) -> None:
        """Remove the folder once no rank needs it. A collective."""
        barrier()
        if is_main():
            self.own.cleanup()


def _shared_directory(own: "TemporaryDirectory[str]") -> SharedDirectory:
    name = broadcast(own.name)
    if not is_main():
        own.cleanup()
    return SharedDirectory(own, name)
