"""torchrun on this machine, for ddpify's own runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import ddpify


def torchrun_here(ranks: int) -> list[str]:
    """The command that starts what follows it on so many ranks, with this interpreter."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return [*torchrun, f"--nproc-per-node={ranks}"]


def environment() -> dict[str, str]:
    """The environment for it: this ddpify importable, after all else, and one thread a rank.

    torchrun sets the latter for several ranks only, which would give a single one all cores.
    """
    package = str(Path(ddpify.__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), package]))
    return {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": path}
