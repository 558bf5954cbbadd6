"""Run training scripts as ranks forked from one warm process, and record what each does.

Importing torch and torch._dynamo costs seconds, forking costs milliseconds. ``serve`` therefore
imports them and the runtime helper once, then forks the ranks of each job that it reads (one JSON
object a line). A server of its own is needed because a process that has run a backward pass cannot
be forked.

As a target of torchrun, ``python training_worker.py job JOB`` is one rank of a job.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import runpy
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
import torch.distributed.fsdp  # here once, not in every rank
from torch.distributed.tensor import DTensor
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

from ddpify.ports import free_port
from ddpify.verify.launch.forking import share_with_forks
from tests.leaving import leave

SECONDS_AFTER_A_FAILURE = 15.0
"""How long the other ranks may take to end once one has failed."""

_DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout")


def main() -> None:
    torch.set_num_threads(1)
    command, *rest = sys.argv[1:]
    if command == "serve":
        serve()
    else:
        run_job(json.loads(Path(rest[0]).read_text()), int(os.environ["RANK"]))


def serve() -> None:
    """Read jobs from stdin, answer each with its ranks' exit statuses on the first stdout."""
    importlib.import_module("ddpify.runtime")  # importing it changes nothing
    share_with_forks()
    answers = os.fdopen(os.dup(1), "w")
    for line in iter(sys.stdin.readline, ""):
        job = json.loads(line)
        port = free_port()
        pids = []
        for rank in range(job["world_size"] or 1):
            pid = os.fork()
            if pid == 0:
                become_rank(job, rank, port)
                script = run_job(job, rank)
                leave(script)
            pids.append(pid)
        print(
            json.dumps(wait_for(pids, time.monotonic() + job["deadline"])), file=answers, flush=True
        )


def wait_for(pids: list[int], deadline: float) -> list[int | None]:
    """Exit status of each process (negative: its signal; None: it was hanging, and was killed)."""
    statuses: dict[int, int | None] = {}
    while len(statuses) < len(pids):
        for pid in set(pids) - statuses.keys():
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                statuses[pid] = os.waitstatus_to_exitcode(status)
                if statuses[pid] != 0:
                    deadline = min(deadline, time.monotonic() + SECONDS_AFTER_A_FAILURE)
            elif time.monotonic() > deadline:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                statuses[pid] = None
        time.sleep(0.01)
    return [statuses[pid] for pid in pids]


def become_rank(job: dict[str, Any], rank: int, port: int) -> None:
    """Give this forked process torchrun's variables (none for a plain run) and its own output."""
    os.setpgid(0, 0)
    if job["world_size"] is not None:
        local = {"RANK": rank, "LOCAL_RANK": rank, "GROUP_RANK": 0}
        world = {"WORLD_SIZE": job["world_size"], "LOCAL_WORLD_SIZE": job["world_size"]}
        store = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        os.environ.update({name: str(value) for name, value in {**local, **world, **store}.items()})
    redirect(0, os.devnull, os.O_RDONLY)


def run_job(job: dict[str, Any], rank: int) -> dict[str, Any]:
    """Run the job's script in this process as ``__main__``, recorded; its names after it."""
    records = Path(job["records"])
    for number, name in ((1, "stdout"), (2, "stderr")):
        redirect(number, str(records / f"{name}-{rank}.txt"), os.O_WRONLY | os.O_CREAT)
    torch.set_default_dtype(torch.float64 if job["double"] else torch.float32)
    remove_chance()
    if job["cuda_on_cpu"]:
        from tests.cuda_on_cpu import redirect_cuda_to_cpu

        redirect_cuda_to_cpu()
    os.chdir(job["folder"])
    sys.argv = [job["script"], *job["args"]]
    sys.path[0] = str(Path(job["script"]).parent)
    record = Record(Path(job["folder"]).resolve(), records / f"record-{rank}.pt")
    record.start()
    return runpy.run_path(job["script"], run_name="__main__")


class Record:
    """What one rank did: optimizer steps, elements given to layers in training, files written."""

    def __init__(self, folder: Path, path: Path) -> None:
        self.folder = folder
        self.path = path
        self.steps: list[dict[str, Any]] = []
        self.elements = 0
        self.written: list[str] = []
        self._optimizers: list[torch.optim.Optimizer] = []

    def start(self) -> None:
        register_optimizer_step_post_hook(self._after_step)
        register_module_forward_pre_hook(self._before_layer)
        sys.addaudithook(self._audit)
        torch.save = self._recording(torch.save)
        atexit.register(self._write, torch.serialization.save)

    def _after_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if not any(optimizer is known for known in self._optimizers):
            self._optimizers.append(optimizer)
        numbers = [i for i, known in enumerate(self._optimizers) if known is optimizer]
        groups = optimizer.param_groups
        self.steps.append(
            {
                "optimizer": numbers[0],
                "learning_rates": [float(group["lr"]) for group in groups],
                "parameters": [whole(p) for group in groups for p in group["params"]],
            }
        )

    def _before_layer(self, module: torch.nn.Module, args: tuple[Any, ...]) -> None:
        is_leaf = next(module.children(), None) is None
        if module.training and is_leaf and args and isinstance(args[0], torch.Tensor):
            self.elements += args[0].numel()

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(args[0], str) and args[2] & (os.O_WRONLY | os.O_RDWR):
            self._note(args[0])

    def _recording(self, save: Callable[..., None]) -> Callable[..., None]:
        """torch.save opens its file below the level of Python's audit events."""

        def recorded(obj: object, f: Any, *args: Any, **kwargs: Any) -> None:
            if isinstance(f, (str, os.PathLike)):
                self._note(os.fspath(f))
            save(obj, f, *args, **kwargs)

        return recorded

    def _note(self, path: str) -> None:
        absolute = Path(self.folder, path).resolve()
        if absolute.is_relative_to(self.folder):
            self.written.append(str(absolute.relative_to(self.folder)))

    def _write(self, save: Callable[..., None]) -> None:
        save({"steps": self.steps, "elements": self.elements, "written": self.written}, self.path)


def whole(parameter: torch.Tensor) -> torch.Tensor:
    """A copy of a parameter; of a sharded one, put together from all ranks."""
    plain = parameter.detach()
    return plain.full_tensor() if isinstance(plain, DTensor) else plain.clone()


def remove_chance() -> None:
    """Take out what ranks draw from their own streams: dropout is off, and noise is constant."""
    functional: Any = torch.nn.functional
    for name in _DROPOUTS:
        setattr(functional, name, lambda input, *args, **kwargs: input)
    torch.randn_like = torch.ones_like  # type: ignore[assignment]


def redirect(number: int, path: str, flags: int) -> None:
    """Let file descriptor ``number`` be the file at ``path``."""
    sys.stdout.flush()
    sys.stderr.flush()
    handle = os.open(path, flags, 0o644)
    os.dup2(handle, number)
    os.close(handle)


if __name__ == "__main__":
    main()
