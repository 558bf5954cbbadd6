"""Start of an epoch and memory of a rank: the exact sampler against DistributedSampler.

    python -m benchmarks.sampler [samples ...]     default: 1000000 10000000 100000000

Each measurement is a process of its own that shuffles that many samples for 2 ranks with a global
batch of 256: processor seconds until the first batch of indices, microseconds for each of 1000
more, and by how many MB the process has grown at most. 10**8 samples take DistributedSampler 5 GB.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

RANKS, GLOBAL_BATCH, BATCHES = 2, 256, 1000
ROUNDS = 3


def main(sizes: list[int]) -> None:
    """Print a line for each number of samples."""
    for size in sizes:
        found = {kind: [run(kind, size) for _ in range(ROUNDS)] for kind in ("exact", "torch")}
        medians = {
            kind: [statistics.median(column) for column in zip(*rows, strict=True)]
            for kind, rows in found.items()
        }
        (start, batch, grown), (start2, batch2, grown2) = medians["exact"], medians["torch"]
        print(
            f"{size:>11,} samples: start {start:.3f} s against {start2:.3f} s"
            f" ({start / start2:.2f}), batch {batch:.1f} us against {batch2:.1f} us,"
            f" memory {grown:.0f} MB against {grown2:.0f} MB ({grown / grown2:.2f})",
            flush=True,
        )


def run(kind: str, size: int) -> list[float]:
    """Measure in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.sampler", "--measure", kind, str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


def measure(kind: str, size: int) -> None:
    """Print seconds, microseconds and MB."""
    loader = exact(size) if kind == "exact" else distributed(size)
    before = _peak()
    start = time.process_time()
    batches: Iterator[Any] = iter(loader._index_sampler)
    next(batches)
    first = time.process_time()
    for _ in range(BATCHES):
        next(batches)
    each = (time.process_time() - first) / BATCHES * 1e6
    print(first - start, each, _peak() - before)


def exact(size: int) -> Any:
    """The script's loader, sharded."""
    from torch.utils.data import DataLoader

    from benchmarks.one_rank import become_rank_zero
    from ddpify import runtime as dd

    become_rank_zero(RANKS)
    loader: Any = DataLoader(range(size), batch_size=GLOBAL_BATCH, shuffle=True)  # type: ignore[arg-type]
    return dd.shard(loader)


def distributed(size: int) -> Any:
    """A loader as a person would write it for a rank."""
    from torch.utils.data import DataLoader, DistributedSampler

    samples: Any = range(size)
    sampler: Any = DistributedSampler(samples, RANKS, 0)
    return DataLoader(samples, batch_size=GLOBAL_BATCH // RANKS, sampler=sampler)


def _peak() -> float:
    """The most memory that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2], int(sys.argv[3]))
    else:
        main([int(word) for word in sys.argv[1:]] or [10**6, 10**7, 10**8])
