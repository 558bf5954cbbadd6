"""What the runtime helper itself costs a step, in microseconds, without any communication.

    python -m benchmarks.helper_costs

Collectives end at once here (see one_rank), so that what is left is the helper's own work and
torch's Python around a collective. Each row varies one number: loaders in the loop, metrics in a
step, ranks. Times are processor time, the least of many repetitions.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

RANKS = (2, 16, 256, 4096)
COUNTS = (1, 2, 4, 8)
REPETITIONS, CALLS = 20, 50
PER_RANK = 8
"""Samples of each rank in a global batch."""


def main() -> None:
    """Measure each number of ranks in a process of its own, and print a table."""
    for ranks in RANKS:
        command = [sys.executable, "-m", "benchmarks.helper_costs", str(ranks)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        print(f"{ranks} ranks\n{done.stdout}", flush=True)


def measure(ranks: int) -> None:
    """Print the costs for one number of ranks."""
    from benchmarks.one_rank import become_rank_zero

    become_rank_zero(ranks)
    total = PER_RANK * ranks
    rows: dict[str, Callable[[], Any]] = {**loader_rows(total), **metric_rows(total)}
    for name, call in rows.items():
        print(f"  {name:44} {least(call):9.1f} us")


def least(call: Callable[[], Any]) -> float:
    """Microseconds that a call takes undisturbed."""
    best = float("inf")
    for _ in range(REPETITIONS):
        start = time.thread_time()
        for _ in range(CALLS):
            call()
        best = min(best, (time.thread_time() - start) / CALLS)
    return best * 1e6


def loader_rows(total: int) -> dict[str, Callable[[], Any]]:
    """A batch of indices alone, from plain loaders and from as many sharded ones."""
    from ddpify import runtime as dd

    rows: dict[str, Callable[[], Any]] = {"plain loader of a rank's part": _next(_loader(PER_RANK))}
    for count in COUNTS:
        shared = [_next(dd.shard(_loader(total))) for _ in range(count)]
        rows[f"{count} sharded loader(s)"] = lambda shared=shared: [one() for one in shared]
    return rows


def _loader(batch: int) -> Any:
    from torch.utils.data import DataLoader

    samples: Any = range(batch * (REPETITIONS * CALLS + 10))
    return DataLoader(samples, batch_size=batch, shuffle=True, collate_fn=list)


def _next(loader: Any) -> Callable[[], Any]:
    iterator: Iterator[Any] = iter(loader)
    next(iterator)
    return lambda: next(iterator)


def metric_rows(total: int) -> dict[str, Callable[[], Any]]:
    """A loss with its backward, counts, and sums of a batch that is shared out."""
    import torch

    from ddpify import runtime as dd

    keep = iter(dd.shard(_loader(total)))
    next(keep)
    weight = torch.ones((), requires_grad=True)
    rows_of = torch.randn(PER_RANK, 10)
    correct = torch.tensor(3)
    rows: dict[str, Callable[[], Any]] = {
        "loss and backward, alone": lambda: (weight * 1).backward(),
        "loss and backward with dd.mean": lambda: dd.mean(weight * 1).backward(),
        "dd.global_batch_size(x)": lambda: dd.global_batch_size(rows_of),
        "dd.gather(x), 10 columns": lambda: (keep, dd.gather(rows_of)),
    }
    for count in COUNTS:
        rows[f"{count} dd.sum(x)"] = lambda count=count: [dd.sum(correct) for _ in range(count)]
    return rows


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(int(sys.argv[1]))
    else:
        main()
