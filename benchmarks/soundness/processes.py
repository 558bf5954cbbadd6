"""A standing group of forked processes that run one script after the other."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, cast

import torch

from benchmarks.soundness.running import Record, Recorder
from ddpify.ports import free_port
from ddpify.runtime import init
from tests.training_worker import redirect, remove_chance

GRACE = 0.5
"""Seconds for the other ranks to end once one has failed."""


class Group:
    """``size`` ranks in one process group; a size of None is one plain process.

    A group that a script has left in disorder (a rank has failed, or does not answer) is ended,
    and its successor is forked for the next script.
    """

    def __init__(self, size: int | None, seconds: float) -> None:
        self.size = size
        self.runs = 0
        self._seconds = seconds
        self._ends: list[Connection] = []
        self._pids: list[int] = []

    def start(self, text: str, folder: str) -> None:
        """Let all ranks begin with a script; finish() has what became of it."""
        if not self._pids:
            self._fork()
        self.runs += 1
        for end in self._ends:
            end.send_bytes(pickle.dumps((text, folder)))
        self._deadline = time.monotonic() + self._seconds

    def finish(self) -> list[Record | None]:
        """What each rank did; None for one that did not end in time."""
        records: list[Record | None] = [None] * len(self._ends)
        waiting = list(self._ends)
        while waiting and time.monotonic() < self._deadline:
            for ready in wait(waiting, max(0.0, self._deadline - time.monotonic())):
                end = cast(Connection, ready)
                waiting.remove(end)
                record = records[self._ends.index(end)] = received(end)
                if record is None or record.error:
                    self._deadline = min(self._deadline, time.monotonic() + GRACE)
        failed = any(record.error for record in records if record)
        if None in records or (failed and self.size):
            self.end()
        return records

    def end(self) -> None:
        """Kill the processes."""
        for end, pid in zip(self._ends, self._pids, strict=True):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            end.close()
        self._ends, self._pids, self.runs = [], [], 0

    def _fork(self) -> None:
        port = free_port()
        for rank in range(self.size or 1):
            own, other = Pipe()
            pid = os.fork()
            if pid == 0:
                serve(other, lambda rank=rank: self._become(rank, port))  # type: ignore[misc]
            other.close()
            self._ends.append(own)
            self._pids.append(pid)

    def _become(self, rank: int, port: int) -> None:
        """Give this process torchrun's variables, and let it join its group."""
        names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
        for name in names:
            os.environ.pop(name, None)
        if self.size:
            for name, value in zip(names, (rank, rank, self.size, self.size), strict=True):
                os.environ[name] = str(value)
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        init()


def received(end: Any) -> Record | None:
    """What a process sends; None where it has ended."""
    try:
        return pickle.loads(end.recv_bytes())  # type: ignore[no-any-return]
    except (EOFError, OSError):
        return None


def serve(end: Connection, become: Callable[[], None]) -> None:
    """Be a forked process: run the scripts that come, as long as its parent lives."""
    parent = os.getppid()
    try:
        _close_inherited(end.fileno())
        redirect(2, os.devnull, os.O_WRONLY)  # gloo's own words when it ends a process
        gc.freeze()  # the collector is not to touch, and so copy, every object of torch
        torch.set_num_threads(1)
        remove_chance()
        # torch's own one notes, with a traceback, what accelerators are to do should they come.
        torch.manual_seed = torch.default_generator.manual_seed
        become()
        recorder = Recorder()
        while os.getppid() == parent:
            if end.poll(1.0):
                text, folder = pickle.loads(end.recv_bytes())
                end.send_bytes(pickle.dumps(recorder.run(text, folder)))
    finally:
        os._exit(1)


def _close_inherited(kept: int) -> None:
    """Close what the parent has open but ``kept``: who reads its pipes waits for their end."""
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
