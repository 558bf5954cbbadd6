"""What ``ddpify plan`` says of a GPU's memory, against what PyTorch's allocator holds there.

    python -m benchmarks.plan_memory [--memory GIB]

Needs a GPU. For each model of ``benchmarks/scripts/memory.py``, in float32 and under bfloat16
autocast, the script trains with its own batch, and the peak of allocated bytes stands beside the
sum that ``plan`` gives for one GPU. Then it trains with the batch that ``plan`` calls the largest
for a GPU of GIB (default: 8), and with parts and multiples of it, within that much memory. The last
columns say the largest of them that fits, with PyTorch's allocator as it is and with
``expandable_segments:True``, under which memory fragments less. Several lines are measured at
once, in processes of their own.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).resolve().parent / "scripts" / "memory.py"
MODELS = ("transformer", "convolutions", "lstm", "perceptron")
AT_ONCE = 8
EXPANDABLE = "expandable_segments:True"
TRIED = (0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5)
MEASURED = """
import runpy, sys, torch
torch.cuda.set_per_process_memory_fraction(float(sys.argv[1]))
sys.argv = sys.argv[2:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except torch.OutOfMemoryError:
    print(-1)
else:
    print(torch.cuda.max_memory_allocated())
"""


def main() -> None:
    """Print a line for each model and precision."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory", type=float, default=8.0)
    memory = parser.parse_args().memory
    print(f"{'model':14}{'precision':10}{'plan':>10}{'measured':>10}{'ratio':>7}{'largest':>9}"
          f"{'fits':>6}{'expandable':>12}")  # fmt: skip
    cases = itertools.product(MODELS, ("float32", "bfloat16"))
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for line in threads.map(lambda case: _line(case[0], case[1], memory), cases):
            print(line, flush=True)


def _line(model: str, precision: str, memory: float) -> str:
    given = ["--model", model, *(["--bf16"] if precision == "bfloat16" else [])]
    planned = _planned(given, memory)
    one = planned["table"][0]
    said = one["ddp"] + one["step"]
    found = _peak(given, 1.0)
    largest, share = one["largest_batch"], memory * 2**30 / _total()
    fits, expandable = (_fitting(given, largest, share, setting) for setting in ("", EXPANDABLE))
    return (
        f"{model:14}{precision:10}{said / 2**20:9.0f}M{found / 2**20:9.0f}M{said / found:7.2f}"
        f"{largest:9}{fits:>6}{expandable:>12}"
    )


def _fitting(given: list[str], largest: int, share: float, setting: str) -> str:
    """The largest multiple of a batch that fits."""
    multiples = (
        x for x in TRIED if _peak([*given, "--batch", str(int(x * largest))], share, setting) < 0
    )
    first = next(multiples, None)
    below = TRIED[-1] if first is None else max((x for x in TRIED if x < first), default=0)
    return f"{below}x"


def _planned(given: list[str], memory: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "ddpify", "plan", str(SCRIPT), "--json"]
    done = subprocess.run(
        [*command, "--memory", str(memory), "--", *given], capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    loaded: dict[str, Any] = json.loads(done.stdout)
    return loaded


def _peak(given: list[str], share: float, setting: str = "") -> int:
    """Allocated bytes at the peak; -1 where the training does not fit into that share."""
    command = [sys.executable, "-c", MEASURED, str(share), str(SCRIPT), *given]
    allocator = {"PYTORCH_CUDA_ALLOC_CONF": setting} if setting else {}
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, **allocator}
    )
    return int(done.stdout.split()[-1])


def _total() -> int:
    import torch

    return int(torch.cuda.get_device_properties(0).total_memory)


if __name__ == "__main__":
    main()
