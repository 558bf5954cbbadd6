"""Run scripts that take snapshots in forked processes, each cut at its first snapshot.

``python -m tests.cut_runs`` reads a job on each line of standard input: a JSON list of the script,
the folder to run it in and whether to cut it. It goes on with a script until one process comes to
the end, and answers with a JSON list of the exit status and how many processes were cut. What the
script says is in ``printed.txt`` and ``errors.txt`` of its folder.

PyTorch is imported once, before the forks: importing it takes longer than training.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

import torch

from ddpify.runtime.snapshots import Snapshots
from ddpify.verify.launch.forking import share_with_forks
from tests.leaving import leave

CUT = 77
LIMIT = 60
# What optimizers and data loaders import when they are first made.
IMPORTED_LATE = ("numpy", "torch._dynamo", "torch.distributed", "torch.utils.data")


def main() -> None:
    """Answer jobs until the input ends."""
    torch.set_num_threads(1)
    for module in IMPORTED_LATE:
        importlib.import_module(module)
    share_with_forks()
    for line in sys.stdin:
        script, folder, cut = json.loads(line)
        print(json.dumps(_job(script, Path(folder), cut)), flush=True)


def _job(script: str, folder: Path, cut: bool) -> tuple[int, int]:
    """Fork until the script ends; its exit status, and how many processes were cut."""
    for attempt in range(LIMIT):
        child = os.fork()
        if child == 0:
            _run(script, folder, cut)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status != CUT:
            return status, attempt
    return CUT, LIMIT


def _run(script: str, folder: Path, cut: bool) -> None:
    os.chdir(folder)
    _append("printed.txt", sys.stdout.fileno())
    _append("errors.txt", sys.stderr.fileno())
    if cut:
        _cut_at_the_first_snapshot()
    sys.argv = [script]
    leave(runpy.run_path(script, run_name="__main__"))


def _append(file: str, descriptor: int) -> None:
    opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(opened, descriptor)
    os.close(opened)


def _cut_at_the_first_snapshot() -> None:
    take = Snapshots._take

    def take_and_end(snapshots: Any) -> None:
        take(snapshots)
        sys.stdout.flush()
        os._exit(CUT)

    setattr(Snapshots, "_take", take_and_end)  # noqa: B010


if __name__ == "__main__":
    main()
