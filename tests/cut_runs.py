"""Run a script that takes snapshots in forked processes, each cut at its first snapshot.

``python -m tests.cut_runs SCRIPT`` goes on until one process comes to the end of the script, and
prints how many were cut. With ``--undisturbed``, none is.
"""

from __future__ import annotations

import os
import runpy
import sys
from typing import Any

import torch

from ddpify.runtime.snapshots import Snapshots

CUT = 77
LIMIT = 60


def main() -> int:
    """Fork until the script ends; its exit status."""
    script, cut = sys.argv[1], "--undisturbed" not in sys.argv
    torch.set_num_threads(1)
    for attempt in range(LIMIT):
        child = os.fork()
        if child == 0:
            _run(script, cut)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status != CUT:
            print(f"cut {attempt} times", file=sys.stderr)
            return status
    print("the script does not come to its end", file=sys.stderr)
    return 1


def _run(script: str, cut: bool) -> None:
    if cut:
        take = Snapshots._take

        def take_and_end(snapshots: Any) -> None:
            take(snapshots)
            sys.stdout.flush()
            os._exit(CUT)

        setattr(Snapshots, "_take", take_and_end)  # noqa: B010
    sys.argv = [script]
    runpy.run_path(script, run_name="__main__")
    sys.stdout.flush()
    sys.exit(0)


if __name__ == "__main__":
    sys.exit(main())
