"""Keep process groups until the process ends.

Gloo's destructor waits for its thread while it holds Python's global lock, and that thread may need
the lock to release the last collective's tensors: a rare deadlock at the end of a right script.
"""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

from ddpify.verify.inside.patching import replace

_kept: list[Any] = []


def install() -> None:
    """Make ``destroy_process_group`` leave the destructors to the end of the process."""
    if not dist.is_available():
        return
    destroy = dist.destroy_process_group

    def destroy_process_group(group: Any = None) -> None:
        _kept.extend(distributed_c10d._world.pg_map)
        destroy(group)

    for owner in (dist, distributed_c10d):
        replace(owner, "destroy_process_group", destroy_process_group)
