"""How a converted script starts."""

import datetime
import importlib
import os

from ddpify.runtime.process import join_ranks, warn_once, world_size
from ddpify.runtime.resume import take_snapshots
from ddpify.runtime.snapshots import Snapshots


def init(
    *,
    timeout: datetime.timedelta | None = None,
    snapshots: str | os.PathLike[str] | None = None,
    snapshot_steps: int | None = None,
    snapshot_minutes: float = 10.0,
) -> None:
    """Join the process group of a torchrun launch; do nothing in a plain ``python`` run.

    The device is this rank's accelerator (``LOCAL_RANK``), or the CPU. From here on, ranks
    other than 0 print nothing to standard output, an uncaught exception ends its rank at once
    with a traceback that names it, and rank 0's random states hold on every rank.

    ``timeout`` bounds each collective (default: the environment's ``DDPIFY_TIMEOUT`` in
    seconds, else torch's own default). A second call does nothing, nor does a call in a worker
    process.

    ``snapshots``: a folder, in which rank 0 keeps snapshots of the training's resumable() loops,
    one after each ``snapshot_steps`` steps, or else each ``snapshot_minutes``. A later start goes
    on from the newest; a training that has come to its end removes them.

    The environment's ``DDPIFY_CHECK=20`` compares the ranks' first 20 steps, as `ddpify check
    --light` does, and reports to standard error on rank 0.

    Raises RuntimeError where torch is older than 2.6, launch variables are missing, ranks
    outnumber the node's accelerators, or the snapshots are another script's; OSError where none
    can be written.
    """
    joined = join_ranks(timeout)
    if joined and os.environ.get("DDPIFY_CHECK"):
        _watch_first_steps(os.environ["DDPIFY_CHECK"])
    if joined and snapshots is not None:
        take_snapshots(Snapshots(snapshots, snapshot_steps, 60 * snapshot_minutes))


def _watch_first_steps(steps: str) -> None:
    """Compare the ranks of the first steps, where ddpify itself is installed."""
    if world_size() == 1:
        return
    try:
        checking = importlib.import_module("ddpify.checking.under_torchrun")
    except ImportError:
        warn_once("DDPIFY_CHECK needs ddpify itself: pip install ddpify")
        return
    checking.watch_first_steps(int(steps))
