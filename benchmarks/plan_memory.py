"""What ``ddpify plan`` says of a GPU's memory, against what PyTorch's allocator holds there.

    python -m benchmarks.plan_memory [--memory GIB]

Needs a GPU. For each model of ``benchmarks/scripts/memory.py``, in float32 and under bfloat16
autocast, the script trains with its own batch, and the peak of allocated bytes stands beside the
sum that ``plan`` gives for one GPU. Then it trains with the batch that ``plan`` calls the largest
for a GPU of GIB (default: 8), within that much memory, and with larger ones, up to the first that
does not fit: the last column says how many times as large that is. Several lines are measured at
once, in processes of their own.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).resolve().parent / "scripts" / "memory.py"
MODELS = ("transformer", "convolutions", "lstm", "perceptron")
AT_ONCE = 8
LARGER = (1.1, 1.2, 1.4, 1.7, 2.0)
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
          f"{'fits':>6}{'not from':>9}")  # fmt: skip
    cases = itertools.product(MODELS, ("float32", "bfloat16"))
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for line in threads.map(lambda case: _line(*case, memory), cases):
            print(line, flush=True)


def _line(model: str, precision: str, memory: float) -> str:
    given = ["--model", model, *(["--bf16"] if precision == "bfloat16" else [])]
    planned = _planned(given, memory)
    one = planned["table"][0]
    said = one["ddp"] + one["step"]
    found = _peak(given, 1.0)
    largest, share = one["largest_batch"], memory * 2**30 / _total()
    fits = _peak([*given, "--batch", str(largest)], share) > 0
    ends = (x for x in LARGER if _peak([*given, "--batch", str(int(x * largest))], share) < 0)
    first = next(ends, None)
    return (
        f"{model:14}{precision:10}{said / 2**20:9.0f}M{found / 2**20:9.0f}M{said / found:7.2f}"
        f"{largest:9}{'yes' if fits else 'no':>6}{f'{first}x' if first else 'more':>9}"
    )


def _planned(given: list[str], memory: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "ddpify", "plan", str(SCRIPT), "--json"]
    done = subprocess.run(
        [*command, "--memory", str(memory), "--", *given], capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    loaded: dict[str, Any] = json.loads(done.stdout)
    return loaded


def _peak(given: list[str], share: float) -> int:
    """Allocated bytes at the peak; -1 where the training does not fit into that share."""
    command = [sys.executable, "-c", MEASURED, str(share), str(SCRIPT), *given]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1])


def _total() -> int:
    import torch

    return int(torch.cuda.get_device_properties(0).total_memory)


if __name__ == "__main__":
    main()
