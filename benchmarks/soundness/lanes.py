"""Tries many scripts, a share of them in each of several processes."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection, Pipe, wait

import torch
import torch._dynamo  # DistributedDataParallel imports it: once here, not in every rank
import torch.distributed.fsdp

from benchmarks.soundness.generator import Script, scripts
from benchmarks.soundness.judging import Verdict
from benchmarks.soundness.trying import Trial


@dataclass(frozen=True)
class Tried:
    """A script and what became of it."""

    script: Script
    verdict: Verdict


def tried(
    count: int, seed: int, kinds: Sequence[str] = (), jobs: int = 2, *, once: bool = False
) -> Iterator[Tried]:
    """Try the first ``count`` scripts of a seed; yields each as soon as it is known.

    once: believe that a script goes wrong without trying it again in new processes.
    Raises RuntimeError where not all could be tried, a mistake in a form for example.

    Processes are forked: no thread of this one may be running, and it must not have run a
    backward pass.
    """
    torch.set_num_threads(1)
    ends, pids = [], []
    for job in range(jobs):
        own, other = Pipe(duplex=False)
        pid = os.fork()
        if pid == 0:
            _run_lane(other, Lane(count, seed, kinds, jobs, job, once))
        other.close()
        ends.append(own)
        pids.append(pid)
    try:
        missing = count
        for one in _arriving(ends):
            missing -= 1
            yield one
        if missing:
            raise RuntimeError(f"{missing} of {count} scripts were not tried")
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)


@dataclass(frozen=True)
class Lane:
    """One process's share of the scripts."""

    count: int
    seed: int
    kinds: Sequence[str]
    jobs: int
    job: int
    once: bool

    def scripts(self) -> Iterator[Script]:
        """Every ``jobs``-th script."""
        share = len(range(self.job, self.count, self.jobs))
        return islice(scripts(self.seed, self.kinds, self.jobs, self.job), share)


def _arriving(ends: list[Connection]) -> Iterator[Tried]:
    open_ends = list(ends)
    while open_ends:
        for end in wait(open_ends):
            try:
                yield pickle.loads(end.recv_bytes())  # type: ignore[union-attr]
            except EOFError:
                open_ends.remove(end)  # type: ignore[arg-type]


def _run_lane(end: Connection, lane: Lane) -> None:
    """Be a forked process that tries its share of the scripts."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    gc.freeze()
    trial = Trial(once=lane.once)
    try:
        for script in lane.scripts():
            end.send_bytes(pickle.dumps(Tried(script, trial.verdict(script.text))))
    except (SystemExit, KeyboardInterrupt, BrokenPipeError):
        pass
    except Exception:
        traceback.print_exc()
    finally:
        trial.close()
        os._exit(0)
