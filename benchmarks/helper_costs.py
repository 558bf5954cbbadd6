"""What the runtime helper itself costs a step, in microseconds, without any communication.

    python -m benchmarks.helper_costs [ranks ...]     default: 2 16 256 4096

Collectives end at once here (see one_rank), so that what is left is the helper's own work and
torch's Python around a collective. Each row varies one number: loaders in the loop, metrics in a
step, ranks. Times are processor time, the least of many repetitions. The last row is rank 0's
work, once, until it has met all ranks in a store, where one thread stands for all others.
"""

from __future__ import annotations

import datetime
import functools
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

RANKS = (2, 16, 256, 4096)
COUNTS = (1, 2, 4, 8)
REPETITIONS, CALLS = 20, 50
PER_RANK = 8
"""Samples of each rank in a global batch."""


def main(numbers: list[int]) -> None:
    """Measure each number of ranks in a process of its own, and print a table."""
    for ranks in numbers:
        command = [sys.executable, "-m", "benchmarks.helper_costs", "--measure", str(ranks)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        print(f"{ranks} ranks\n{done.stdout}", flush=True)


def measure(ranks: int) -> None:
    """Print the costs for one number of ranks."""
    from benchmarks.one_rank import become_rank_zero

    become_rank_zero(ranks)
    total = PER_RANK * ranks
    for name, prepare in {**loader_rows(total), **metric_rows(total)}.items():
        print(f"  {name:44} {least(prepare):9.1f} us")
    print(f"  {'the meeting in dd.init(), once':44} {meeting(ranks):9.0f} us")


Prepare = Callable[[], Callable[[], Any]]
"""What is measured, made anew for each repetition: epochs that hold all calls would not fit."""


def least(prepare: Prepare) -> float:
    """Microseconds that a call takes undisturbed."""
    best = float("inf")
    for _ in range(REPETITIONS):
        call = prepare()
        start = time.thread_time()
        for _ in range(CALLS):
            call()
        best = min(best, (time.thread_time() - start) / CALLS)
    return best * 1e6


def meeting(ranks: int) -> float:
    """Microseconds of rank 0's work until it has met all others."""
    from torch._C._distributed_c10d import TCPStore

    from ddpify.runtime.rendezvous import meet

    server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    client = TCPStore("127.0.0.1", server.port, is_master=False, wait_for_workers=False)
    others = threading.Thread(target=_come, args=(client, range(1, ranks)))
    others.start()
    start = time.thread_time()
    meet(server, 0, ranks, datetime.timedelta(minutes=5))
    taken = time.thread_time() - start
    others.join()
    return taken * 1e6


def _come(store: Any, ranks: range) -> None:
    """What all other ranks do in meet(), one after the other."""
    for rank in ranks:
        store.add(f"ddpify/start/arrivals/{rank}", 1)
    for rank in ranks:
        key = f"ddpify/start/answers/{rank}/1"
        store.wait([key])
        store.set(f"{store.get(key).decode()}/here/{rank}", "")


def loader_rows(total: int) -> dict[str, Prepare]:
    """A batch of indices alone, from plain loaders and from as many sharded ones."""
    from ddpify import runtime as dd

    def several(count: int) -> Callable[[], Any]:
        shared = [_next(dd.shard(_loader(total))) for _ in range(count)]
        return lambda: [one() for one in shared]

    rows: dict[str, Prepare] = {
        "plain loader of a rank's part": lambda: _next(_loader(PER_RANK)),
    }
    for count in COUNTS:
        rows[f"{count} sharded loader(s)"] = functools.partial(several, count)
    return rows


def _loader(batch: int) -> Any:
    from torch.utils.data import DataLoader

    samples: Any = range(batch * (CALLS + 2))
    return DataLoader(samples, batch_size=batch, shuffle=True, collate_fn=list)


def _next(loader: Any) -> Callable[[], Any]:
    iterator: Iterator[Any] = iter(loader)
    next(iterator)
    return lambda: next(iterator)


def metric_rows(total: int) -> dict[str, Prepare]:
    """A loss with its backward, counts, and sums of a batch that is shared out."""
    import torch

    from ddpify import runtime as dd

    keep = iter(dd.shard(_loader(total)))
    next(keep)
    weight = torch.ones((), requires_grad=True)
    rows_of = torch.randn(PER_RANK, 10)
    correct = torch.tensor(3)
    rows: dict[str, Callable[[], Any]] = {
        "loss and backward, alone": lambda: torch.autograd.backward(weight * 1),
        "loss and backward with dd.mean": lambda: dd.mean(weight * 1).backward(),
        "dd.global_batch_size(x)": lambda: dd.global_batch_size(rows_of),
        "dd.gather(x), 10 columns": lambda: (keep, dd.gather(rows_of)),
    }
    for count in COUNTS:
        rows[f"{count} dd.sum(x)"] = functools.partial(_times, count, lambda: dd.sum(correct))
    return {name: functools.partial(_same, call) for name, call in rows.items()}


def _times(count: int, call: Callable[[], Any]) -> None:
    for _ in range(count):
        call()


def _same(call: Callable[[], Any]) -> Callable[[], Any]:
    return call


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(int(sys.argv[2]))
    else:
        main([int(word) for word in sys.argv[1:]] or list(RANKS))
