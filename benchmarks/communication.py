"""Collectives of a converted script, counted, against the same without what saves them.

    python -m benchmarks.communication [--nproc 2]

Two trainings of 32 batches: one that steps in each and prints its loss in each 16th, and one that
accumulates four batches for a step. Counted are rank 0's collectives by kind, from the start of the
training loop to its end: for the converted script, for the converted script without ``lazy`` and
``sync_gradients``, and for DistributedDataParallel by hand, which prints rank 0's own loss.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

NAMES = ("converted", "each loss and gradient", "by hand")
START, END = "# training\n", "# trained\n"
HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x, y = torch.randn(256, 8), torch.randint(3, (256,))
loader = DataLoader(TensorDataset(x, y), batch_size=8)
model = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
# training
"""
EACH = """\
for i, (x, y) in enumerate(loader):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if i % 16 == 0:
        print(loss.item())
# trained
"""
FOURTH = """\
for i, (x, y) in enumerate(loader):
    loss = nn.functional.cross_entropy(model(x), y) / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
# trained
"""
BY_HAND = """\
import torch.distributed as dist
dist.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(model)
"""
NO_SYNC = "    model.require_backward_grad_sync = (i + 1) % 4 == 0\n"
COUNTED = """\
from torch.profiler import profile
_recorded = profile().__enter__()
"""
SHOWN = """\
_recorded.__exit__(None, None, None)
import os, sys
if os.environ["RANK"] == "0":
    names = [e.name for e in _recorded.events() if e.name.startswith("gloo:")]
    print("collectives", *names, file=sys.stderr)
"""


def main() -> None:
    """Count, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nproc", type=int, default=2)
    ranks = parser.parse_args().nproc
    for title, loop in {"32 steps": EACH, "32 batches, 8 steps": FOURTH}.items():
        print(f"{title}, {ranks} processes")
        for name, text in zip(NAMES, _variants(loop), strict=True):
            counts = _count(text, ranks)
            print(f"  {name:24} {counts or 'none'}")


def _variants(loop: str) -> list[str]:
    from ddpify.convert import convert_file

    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(HEAD + loop)
        converted = convert_file(script).data.decode()
    lines = converted.replace(", lazy=True", "").splitlines(keepends=True)
    eager = "".join(line for line in lines if "sync_gradients" not in line)
    first = loop.index("    loss")
    by_hand = loop[:first] + NO_SYNC + loop[first:] if loop is FOURTH else loop
    return [converted, eager, HEAD.replace(START, BY_HAND + START) + by_hand]


def _count(text: str, ranks: int) -> str:
    """How many collectives of each kind rank 0 takes part in."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "run.py"
        script.write_text(text.replace(START, COUNTED).replace(END, SHOWN))
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        done = subprocess.run(
            [*torchrun, f"--nproc-per-node={ranks}", str(script)],
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.getcwd()},
            capture_output=True,
            text=True,
            check=True,
        )
    line = next(one for one in done.stderr.splitlines() if one.startswith("collectives"))
    counts = Counter(line.split()[1:])
    return ", ".join(f"{count} {kind.removeprefix('gloo:')}" for kind, count in counts.items())


if __name__ == "__main__":
    main()
