"""``verify``: run the original once, the converted script at each number of processes, and
compare."""

from __future__ import annotations

import contextlib
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from ddpify.errors import DdpifyError, ExitCode
from ddpify.verify.compare.causes import ALLOWABLE
from ddpify.verify.launch import python_path
from ddpify.verify.launch.launcher import Worker
from ddpify.verify.launch.layout import lay_out
from ddpify.verify.runs import Limits, Runs
from ddpify.verify.session import Session
from ddpify.verify.verdict import Verdict

TIMEOUT = 600.0


def verify(
    original: Path,
    converted: Path | None = None,
    *,
    nproc: Sequence[int] = (2,),
    steps: int | None = None,
    script_args: Sequence[str] = (),
    timeout: float = TIMEOUT,
    stall: float = 20.0,
    convert: Callable[[Path, Path], None] | None = None,
    echo: Callable[[str], None] = lambda line: None,
    worker: Worker | None = None,
    allow: Sequence[str] = (),
    detail: bool = False,
    device: str = "cpu",
) -> Verdict:
    """Say whether ``converted`` on several processes trains like ``original`` on one.

    Everything runs in copies, in double precision. The first 200 optimizer steps are
    compared one by one; the scripts run to their end.

    Args:
        original: The script for one process.
        converted: The script for torchrun; None to make it with ``convert``.
        nproc: Numbers of processes to run the converted script with.
        steps: End both scripts after this many optimizer steps (the same place in both).
        script_args: Arguments of both scripts.
        timeout: Seconds that one run may take.
        stall: Seconds without progress, a rank in a collective, that count as a hang.
        convert: Called with the original's path and the path to write the converted script to.
        echo: Takes a line about progress.
        allow: Names of causes that do not spoil the exit code: order, batch-size, padding,
            batchnorm.
        detail: Also keep what a report draws: losses and divergence step by step.
        device: "cpu", or "cuda" to run on the machine's GPUs, with NCCL: one GPU for each process.
        worker: A process that has imported torch already, for several calls on its device; see
            ``warm_worker``.

    Raises:
        DdpifyError: A script cannot be read, torch is missing, there are fewer GPUs than processes,
            or what ``convert`` raises.
    """
    start, began = time.monotonic(), datetime.now().astimezone().isoformat(timespec="minutes")
    _check_input(original, converted, nproc, convert)
    _check_names(allow, device)
    with tempfile.TemporaryDirectory(prefix="ddpify-verify-") as folder:
        base = Path(folder).resolve()
        target = converted or _convert(original, base, convert)
        layout = lay_out(original, target, script_args, python_path=python_path.folders())
        sources = original.read_text(errors="replace") + target.read_text(errors="replace")
        with (
            contextlib.nullcontext(worker)
            if worker
            else warm_worker(sources, device, base) as ready
        ):
            _check_gpus(ready, nproc)
            limits = Limits(steps, timeout, stall, ready.device == "cuda")
            runs = Runs(layout, base, ready, tuple(script_args), limits, echo)
            verdict = Session(runs, echo, detail=detail).verdict(nproc)
            verdict.sources = tuple(
                (path.name, path.read_text(errors="replace")) for path in (original, target)
            )
        verdict.allowed = frozenset(allow)
        verdict.date, verdict.command = began, _command(original, converted, nproc, script_args)
        verdict.original, verdict.converted = str(original), str(converted or target.name)
        verdict.torch, verdict.seconds = ready.torch, time.monotonic() - start
        verdict.device = ready.device
    return verdict


@contextlib.contextmanager
def warm_worker(sources: str = "", device: str = "cpu", *owned: Path) -> Iterator[Worker]:
    """A process that has imported torch, and what ``sources`` (text of scripts) name besides.

    ``device``: what the scripts will run on, "cpu" or "cuda". ``owned``: folders that it removes if
    this process is killed.
    """
    folder = tempfile.TemporaryDirectory(prefix="ddpify-worker-")
    with folder as home, Worker(sources, Path(home), device, owned) as worker:
        yield worker


def _command(
    original: Path, converted: Path | None, nproc: Sequence[int], script_args: Sequence[str]
) -> str:
    """The call that repeats the run, for a shell."""
    scripts = [str(path) for path in (original, converted) if path is not None]
    counts = ",".join(map(str, nproc))
    arguments = ["--", *script_args] if script_args else []
    return shlex.join(["ddpify", "verify", *scripts, "--nproc", counts, *arguments])


def _check_input(
    original: Path, converted: Path | None, nproc: Sequence[int], convert: object
) -> None:
    for path in (original, *([converted] if converted else [])):
        if not path.is_file():
            folder = path.is_dir()
            what = "is a folder, not a script" if folder else "does not exist"
            remedy = "name the script in it that trains" if folder else None
            raise DdpifyError(what, path=path, remedy=remedy, exit_code=ExitCode.USAGE)
    if not nproc or min(nproc) < 1:
        raise DdpifyError("the number of processes must be at least 1", exit_code=ExitCode.USAGE)
    if converted is None and convert is None:
        raise DdpifyError("no converted script is given", exit_code=ExitCode.USAGE)


def _check_gpus(worker: Worker, nproc: Sequence[int]) -> None:
    if worker.device == "cuda" and worker.gpus < max(nproc):
        raise DdpifyError(
            f"{max(nproc)} processes need as many GPUs, and torch finds {worker.gpus} here",
            remedy="--device cpu needs none; or try fewer processes with --nproc",
            exit_code=ExitCode.USAGE,
        )


def _check_names(allow: Sequence[str], device: str) -> None:
    if device not in ("cpu", "cuda"):
        raise DdpifyError(
            f"no device is called {device!r}", remedy="use cpu or cuda", exit_code=ExitCode.USAGE
        )
    unknown = set(allow) - set(ALLOWABLE)
    if unknown:
        raise DdpifyError(
            f"no cause that can be allowed is called {min(unknown)!r}",
            remedy=f"use one of {', '.join(ALLOWABLE)}",
            exit_code=ExitCode.USAGE,
        )


def _convert(original: Path, base: Path, convert: Callable[[Path, Path], None] | None) -> Path:
    assert convert is not None
    target = base / "converted" / f"{original.stem}_ddp.py"
    target.parent.mkdir()
    convert(original, target)
    return target
