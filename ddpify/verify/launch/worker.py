"""The process that imports torch once and forks the ranks of every run.

It reads one job a line from its standard input and answers one line on its standard output. It
ends, with all its ranks, when its input closes. That happens only where the process that started it
was killed; it removes the folders of that one, too.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import ddpify
from ddpify.ports import free_port
from ddpify.verify.launch.forking import share_with_forks
from ddpify.verify.launch.job import Job

_RANK = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from ddpify.verify.launch.worker import rank_main; rank_main(*sys.argv[2:])"
)
_WAITING = ("torch/distributed", "torch/nn/parallel", "torch/autograd")
"""Folders of torch with the functions in which ranks wait for each other."""
GRACE = 8.0
"""Seconds that the other ranks get to end by themselves after one has failed."""


def main(device: str, owned: list[str], preload: list[str]) -> None:
    """Serve jobs until the input closes.

    Args:
        device: "cuda" to count the GPUs.
        owned: Folders to remove then.
        preload: Modules imported once for all runs.
    """
    answers, own = os.fdopen(os.dup(1), "w"), os.getpid()
    os.dup2(2, 1)
    sys.dont_write_bytecode = True
    version = _import_torch(preload)
    gpus = _gpus() if device == "cuda" else 0
    print(json.dumps({"torch": version, "gpus": gpus}), file=answers, flush=True)
    try:
        while line := sys.stdin.readline():
            answer = run(Job.from_json(json.loads(line)))
            print(json.dumps(answer), file=answers, flush=True)
    finally:
        if os.getpid() == own:  # a rank is a fork of this process
            for folder in owned:
                shutil.rmtree(folder, ignore_errors=True)


def _import_torch(preload: list[str]) -> str:
    import torch
    import torch.distributed

    # DistributedDataParallel imports the first when it is constructed, which takes seconds.
    for name in ("torch._dynamo", "torch.distributed.algorithms.ddp_comm_hooks.default_hooks"):
        importlib.import_module(name)
    for name in ("numpy", *preload):
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    importlib.import_module("ddpify.verify.inside.rank")
    fingerprint = importlib.import_module("ddpify.verify.inside.fingerprint")
    fingerprint.directions(torch.device("cpu"))  # once, not in every rank
    share_with_forks()
    return str(torch.__version__)


def _gpus() -> int:
    """The GPUs of this machine; a child counts them, as CUDA does not survive a fork."""
    import torch

    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, str(torch.cuda.device_count()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(pid, 0)
    with os.fdopen(reading) as counted:
        return int(counted.read() or 0)


def run(job: Job) -> dict[str, Any]:
    """Fork the ranks of ``job`` and wait; statuses by rank, and how the run ended."""
    Path(job.out).mkdir(parents=True, exist_ok=True)
    port = free_port()
    start = time.monotonic()
    ranks = {_start(job, rank, port): rank for rank in range(job.world_size)}
    return {**_Watch(job, ranks).wait(), "seconds": time.monotonic() - start}


def _start(job: Job, rank: int, port: int) -> int:
    """The process id of a new rank."""
    return _spawn(job, rank, port) if rank and job.hash_seeds else _fork(job, rank, port)


def _spawn(job: Job, rank: int, port: int) -> int:
    """A rank in a new interpreter, where hashes of strings differ; slow, as it imports torch."""
    package = str(Path(ddpify.__file__).resolve().parent.parent)
    arguments = [package, json.dumps(job.to_json()), str(rank), str(port)]
    process = subprocess.Popen(
        [sys.executable, "-c", _RANK, *arguments],
        env={**os.environ, "PYTHONHASHSEED": str(rank)},
    )
    return process.pid


def rank_main(job: str, rank: str, port: str) -> None:
    """The entry point of such an interpreter."""
    from ddpify.verify.inside.rank import become

    with contextlib.suppress(ImportError):
        importlib.import_module("numpy")
    become(Job.from_json(json.loads(job)), int(rank), int(port))


def _fork(job: Job, rank: int, port: int) -> int:
    pid = os.fork()
    if pid == 0:
        from ddpify.verify.inside.rank import become

        try:
            become(job, rank, port)
        finally:
            os._exit(1)
    return pid


class _Watch:
    """Waits for the ranks of one run, and ends them when they fail, hang or are late."""

    def __init__(self, job: Job, ranks: dict[int, int]) -> None:
        self.job, self.ranks = job, ranks
        self.alive = set(ranks)
        self.status: dict[int, int] = {}
        self.ended = "done"
        self.first_failed: int | None = None
        self._busy_at = time.monotonic()
        self._ticks = -1

    def wait(self) -> dict[str, Any]:
        deadline = time.monotonic() + self.job.timeout
        while self.alive:
            self._reap()
            now = time.monotonic()
            if self.first_failed is not None:
                deadline = min(deadline, now + GRACE)
                self.ended = "failed"
            if now > deadline or self._stalled(now):
                self._end_all("failed" if self.first_failed is not None else None)
            if select.select([0], [], [], 0.02)[0] and not _input_open():
                self._kill()
                sys.exit(1)
        return {"status": self.status, "ended": self.ended, "first_failed": self.first_failed}

    def _reap(self) -> None:
        for pid in list(self.alive):
            done, status = os.waitpid(pid, os.WNOHANG)
            if not done:
                continue
            code = os.waitstatus_to_exitcode(status)
            self.alive.discard(pid)
            self.status[self.ranks[pid]] = code
            if code and self.first_failed is None:
                self.first_failed = self.ranks[pid]

    def _stalled(self, now: float) -> bool:
        """Whether several ranks have used no processor time for a while, one of them in a
        collective."""
        if self.job.world_size == 1 or now - self._busy_at < self.job.stall / 4:
            if self._ticks < 0:
                self._ticks = self._used()
            return False
        used = self._used()
        if used > self._ticks + 2 or used < 0:
            self._ticks, self._busy_at = used, now
            return False
        if now - self._busy_at < self.job.stall:
            return False
        self._dump_stacks()
        self._busy_at = now
        return any(part in stack for stack in self._stacks() for part in _WAITING)

    def _used(self) -> int:
        """Processor time of the ranks' main threads in clock ticks; -1 where it is not told.

        Other threads, such as a process group's, work on while the script waits.
        """
        total = 0
        for pid in self.alive:
            try:
                fields = Path(f"/proc/{pid}/task/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                return -1
            total += int(fields[11]) + int(fields[12])
        return total

    def _dump_stacks(self) -> None:
        for pid in self.alive:
            # A rank that has hardly begun has no file yet, and would end by the signal.
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                os.truncate(f"{self.job.out}/rank{self.ranks[pid]}.stack", 0)
                os.kill(pid, signal.SIGUSR1)
        time.sleep(0.3)

    def _stacks(self) -> list[str]:
        out = Path(self.job.out)
        paths = [out / f"rank{self.ranks[pid]}.stack" for pid in self.alive]
        return [path.read_text() for path in paths if path.exists()]

    def _end_all(self, ended: str | None) -> None:
        self._dump_stacks()
        self.ended = ended or "hung"
        self._kill()

    def _kill(self) -> None:
        for pid in list(self.alive):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in list(self.alive):
            os.waitpid(pid, 0)
            self.status.setdefault(self.ranks[pid], -int(signal.SIGKILL))
        self.alive.clear()


def _input_open() -> bool:
    """Whether the launcher still listens: its end of the pipe is readable only when it is
    closed."""
    return bool(sys.stdin.buffer.peek(1))  # type: ignore[union-attr]
