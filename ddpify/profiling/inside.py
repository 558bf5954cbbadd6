"""One rank of a profiled run: ``python -m ddpify.profiling.inside OUT STEPS SCRIPT ARGUMENTS``."""

from __future__ import annotations

import json
import os
import runpy
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from ddpify.profiling.meter import Meter


def main(out: str, steps: str, script: str, *arguments: str) -> None:
    """Run the script as ``__main__``, measure its steps, and end after the last of them."""
    meter = Meter(int(steps), lambda: _end(out, meter))
    meter.install()
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).parent)
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        _write(out, meter)


def _end(out: str, meter: Meter) -> None:
    """Leave together: a rank that is gone would fail the others' last collective."""
    _write(out, meter)
    sys.stdout.flush()
    if dist.is_initialized():
        dist.barrier()
    os._exit(0)


def _write(out: str, meter: Meter) -> None:
    rank = os.environ.get("RANK", "0")
    record = {"steps": meter.steps, "memory": memory(), **machine()}
    Path(out, f"rank{rank}.json").write_text(json.dumps(record))


def memory() -> dict[str, float]:
    """The most bytes that this process has held: in all ("host"), and on its GPU."""
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    held = {"host": float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)}
    if torch.cuda.is_available():
        held["gpu"] = float(torch.cuda.max_memory_allocated())
    return held


def machine() -> dict[str, int]:
    """The GPUs and CPU cores that there are."""
    return {"gpus": torch.cuda.device_count(), "cores": _cores()}


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if __name__ == "__main__":
    main(*sys.argv[1:])
