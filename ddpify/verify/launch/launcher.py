"""Starting the worker and asking it for runs, without importing torch."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import ddpify
from ddpify.errors import DdpifyError, ExitCode
from ddpify.verify.launch.job import CACHES, Job

_BOOT = (
    "import json, sys; sys.path.append(sys.argv[1]); "
    "from ddpify.verify.launch.worker import main; "
    "main(sys.argv[2], json.loads(sys.argv[3]), sys.argv[4:])"
)
_PRELOADED = (
    "torchvision",
    "torchvision.transforms",
    "torchvision.datasets",
    "tqdm",
    "PIL.Image",
    "safetensors.torch",
)
TICK = 5.0
"""Seconds between two looks at a run's progress."""
_TORCHRUN = frozenset(
    [
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "GROUP_RANK",
        "ROLE_RANK",
        "ROLE_WORLD_SIZE",
        "GROUP_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "TORCH_DISTRIBUTED_DEBUG",
    ]
)
_START = 300.0
_SLACK = 60.0


@dataclass(frozen=True)
class Run:
    """How one run ended.

    Attributes:
        job: What was run.
        status: Exit status of each rank (negative: the signal that ended it).
        ended: "done", "failed" (a rank ended with an error) or "hung" (ended from outside).
        first_failed: The rank that failed first.
        seconds: Wall time.
    """

    job: Job
    status: dict[int, int]
    ended: str
    first_failed: int | None
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether every rank ended well."""
        return self.ended == "done" and not any(self.status.values())

    def text(self, rank: int, kind: str) -> str:
        """What ``rank`` wrote; ``kind``: "out", "err" or "stack". Paths of the copy are
        shortened."""
        path = Path(self.job.out, f"rank{rank}.{kind}")
        if not path.exists():
            return ""
        text = path.read_text(encoding="utf-8", errors="replace")
        for folder in (self.job.cwd, self.job.root):
            text = text.replace(folder + "/", "")
        return text.replace(self.job.cwd, ".")


class Worker:
    """The worker process, as a context manager; everything it started ends with it.

    Args:
        sources: Text of the scripts: heavy modules that they import are imported once.
        home: A folder for the worker's own complaints and for settings that libraries write.
        device: "cpu", or "cuda" for runs on the machine's GPUs.
        owned: Folders that the worker removes, besides its home, if this process is killed.

    Attributes:
        torch: The version of torch.
        gpus: The machine's GPUs, where they are used.
    """

    def __init__(
        self, sources: str, home: Path, device: str = "cpu", owned: Sequence[Path] = ()
    ) -> None:
        self.device = device
        self._owned = [str(home), *map(str, owned)]
        self._log = home / "worker.log"
        self._home = home
        self._preload = [
            name for name in _PRELOADED if re.search(rf"\b{name.split('.')[0]}\b", sources)
        ]
        self.torch = ""
        self.gpus = 0

    def __enter__(self) -> Worker:
        if not hasattr(os, "fork"):
            raise DdpifyError(
                "verify starts processes with fork, which this system lacks",
                remedy="run it on Linux or macOS",
                exit_code=ExitCode.USAGE,
            )
        package = str(Path(ddpify.__file__).resolve().parent.parent)
        folders = [json.dumps(self._owned)]
        with self._log.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _BOOT, package, self.device, *folders, *self._preload],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=self._environment(),
                start_new_session=True,
            )
        try:
            answer = self._answer(_START)
            self.torch, self.gpus = str(answer["torch"]), int(answer["gpus"])
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the worker and its process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def run(self, job: Job, tick: Callable[[float], None] = lambda seconds: None) -> Run:
        """Run ``job`` and wait for it; ``tick`` is called with the seconds so far, now and then."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(job.to_json()) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._died() from None
        answer = self._answer(job.timeout + _SLACK, tick)
        status = {int(rank): code for rank, code in answer["status"].items()}
        return Run(job, status, answer["ended"], answer["first_failed"], answer["seconds"])

    def _answer(
        self, timeout: float, tick: Callable[[float], None] = lambda seconds: None
    ) -> dict[str, Any]:
        assert self._process.stdout is not None
        start, ready = time.monotonic(), False
        while not ready and (spent := time.monotonic() - start) < timeout:
            tick(spent)
            ready = bool(select.select([self._process.stdout], [], [], TICK)[0])
        line = self._process.stdout.readline() if ready else ""
        if not line:
            raise self._died()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _died(self) -> DdpifyError:
        time.sleep(0.1)
        text = self._log.read_text(errors="replace").strip()
        if "No module named 'torch'" in text:
            return DdpifyError(
                "verify runs the scripts, and torch is not installed in this environment",
                remedy="pip install 'ddpify[torch]'",
                exit_code=ExitCode.USAGE,
            )
        last = text.splitlines()[-1] if text else "no message"
        return DdpifyError(
            f"the process that runs the scripts ended: {last}", exit_code=ExitCode.USAGE
        )

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not _is_of_torchrun(name)}
        loopback = {"lo", "lo0"} & {name for _, name in socket.if_nameindex()}
        forced = {
            "PYTHONHASHSEED": "0",
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "TORCH_CPP_LOG_LEVEL": "ERROR",
            "OBJC_DISABLE_INITIALIZE_FORK_SAFETY": "YES",
        }
        if named := [entry for entry in kept.get("PYTHONPATH", "").split(os.pathsep) if entry]:
            forced["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, named))
        if self.device == "cpu":
            forced["CUDA_VISIBLE_DEVICES"] = ""
        usual = {
            "MPLBACKEND": "Agg",
            **dict.fromkeys(CACHES, str(self._home)),
            "WANDB_MODE": "disabled",
            "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
            "GLOO_SOCKET_IFNAME": min(loopback, default=""),
        }
        return {**{k: v for k, v in usual.items() if v}, **kept, **forced}


def _is_of_torchrun(name: str) -> bool:
    """Whether torchrun sets this variable; with it, ranks started here would look for its store."""
    return name in _TORCHRUN or name.startswith("TORCHELASTIC_")
