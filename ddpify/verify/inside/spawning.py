"""``torch.multiprocessing.spawn`` among ranks that exist: each becomes one of its processes.

Every rank runs the script up to the call. What the others than rank 0 recorded until then is
dropped, and they end after it: that part belongs to one process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch.multiprocessing

from ddpify.verify.inside.patching import faked, replace


def another_number(started: int) -> SystemExit:
    """The end of a script that starts another number of processes than there are ranks."""
    return SystemExit(
        f"the script starts {started} processes, by its options or one for each GPU: "
        f"use --nproc {started}"
    )


def install(rank: int, world_size: int, forget: Callable[[], None]) -> None:
    """Replace the function.

    Args:
        rank: This process's.
        world_size: The number of ranks.
        forget: Drops what was recorded so far.
    """

    def spawn(fn: Any, args: Any = (), nprocs: int = 1, join: bool = True, *rest: Any,
              **named: Any) -> None:  # fmt: skip
        faked["torch.multiprocessing.spawn"] += 1
        if not nprocs:
            raise SystemExit("the script starts one process for each GPU, and there is none")
        if nprocs != world_size:
            raise another_number(nprocs)
        if rank:
            forget()
        fn(rank, *args)
        if rank:
            raise SystemExit(0)

    module: Any = sys.modules["torch.multiprocessing.spawn"]
    replace(module, "spawn", spawn)
    replace(torch.multiprocessing, "spawn", spawn)
