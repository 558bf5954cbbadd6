"""One rank of a profiled run.

``python -m ddpify.profiling.inside OUT STEPS TRACE SCRIPT ARGUMENTS``; TRACE is 1 for a trace too.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from ddpify.profiling.meter import Meter
from ddpify.profiling.tracing import Tracer


def main(out: str, steps: str, trace: str, script: str, *arguments: str) -> None:
    """Run the script as ``__main__``, measure its steps, and end after the last of them."""
    meter = Meter(int(steps))
    tracer = Tracer(Path(out, f"trace{_rank()}.json"), lambda: _end(out, meter))
    meter.install(tracer.start if trace == "1" else lambda _: tracer.done())
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).parent)
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        tracer.finish()
        _write(out, meter)


def _end(out: str, meter: Meter) -> None:
    """Leave together: a rank that is gone would fail the others' last collective."""
    _write(out, meter)
    sys.stdout.flush()
    if dist.is_initialized():
        dist.barrier()
    os._exit(0)


def _write(out: str, meter: Meter) -> None:
    record = {
        "steps": meter.steps,
        "calls": meter.calls,
        "samples": meter.samples,
        "overlap": meter.overlap,
        "buckets": meter.wrapped.buckets(),
        "timeline": meter.timeline,
        "workers": meter.workers,
        "full_precision": full_precision(meter),
        "memory": memory(),
        **machine(),
    }
    Path(out, f"rank{_rank()}.json").write_text(json.dumps(record))


def _rank() -> str:
    return os.environ.get("RANK", "0")


def memory() -> dict[str, float]:
    """The most bytes that this process has held: in all ("host"), and on its GPU."""
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    held = {"host": float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)}
    if torch.cuda.is_available():
        held["gpu"] = float(torch.cuda.max_memory_allocated())
    return held


def full_precision(meter: Meter) -> bool:
    """Whether products of float32 are computed as such, with neither TF32 nor autocast."""
    return torch.get_float32_matmul_precision() == "highest" and not meter.autocast


def machine() -> dict[str, int]:
    """The GPUs and CPU cores that there are."""
    return {"gpus": torch.cuda.device_count(), "cores": _cores()}


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if __name__ == "__main__":
    main(*sys.argv[1:])
