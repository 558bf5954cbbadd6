"""Run a function on several ranks, each a fork of this process that calls init() for real."""

import atexit
import faulthandler
import functools
import gc
import os
import pickle
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch._dynamo  # DistributedDataParallel imports it: once here, not in every rank
import torch.distributed as dist

from ddpify import runtime as dd
from ddpify.ports import free_port
from tests.leaving import leave

RANK_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
REPOSITORY = Path(dd.__file__).parents[2]

# A fork may only inherit torch's thread pool if that has never been used.
torch.set_num_threads(1)


@dataclass
class Outcome:
    """How one rank ended: its exit code, what the function returned, what it printed."""

    code: int
    value: Any
    stdout: str
    stderr: str


def launch(
    job: Callable[[], Any],
    size: int,
    *,
    seconds: float = 240,
    env: dict[str, str] | None = None,
    absent: int | None = None,
) -> list[Outcome]:
    """Run ``job`` on ``size`` ranks (1: a plain python run) and wait until all have ended.

    ``absent``: a rank that does not come to init(), and ends at once.
    Raises AssertionError when they have not after ``seconds``; they are killed then.
    """
    call = functools.partial(_call, job)
    return _launch(call, size, seconds=seconds, env=env, absent=absent)


def launch_script(
    script: Path, size: int = 1, *, env: dict[str, str] | None = None
) -> list[Outcome]:
    """As ``launch``, for a script, in its folder: as ``python`` or torchrun would start it."""
    return _launch(functools.partial(_run_script, script), size, seconds=240, env=env)


def _launch(
    job: Callable[[], Any],
    size: int,
    *,
    seconds: float,
    env: dict[str, str] | None,
    absent: int | None = None,
) -> list[Outcome]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        port = free_port()
        variables = [{**_variables(r, size, port), **(env or {})} for r in range(size)]
        pids = [
            _fork(job if r != absent else None, folder / str(r), variables[r]) for r in range(size)
        ]
        codes = _wait(pids, time.monotonic() + seconds)
        outcomes = [_outcome(code, folder / str(r)) for r, code in enumerate(codes)]
    hung = [r for r, code in enumerate(codes) if code is None]
    assert not hung, f"ranks {hung} hung:\n" + "".join(o.stderr for o in outcomes)
    return outcomes


def run(job: Callable[[], Any], size: int, *, seconds: float = 240) -> list[Any]:
    """What ``job`` returned on each rank; AssertionError where one failed."""
    outcomes = launch(job, size, seconds=seconds)
    for place, outcome in enumerate(outcomes):
        assert outcome.code == 0, f"rank {place} of {size} failed:\n{outcome.stderr}"
    return [outcome.value for outcome in outcomes]


def command(
    arguments: list[str], *, folder: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Python with ``arguments`` in another process; AssertionError if it hangs."""
    inherited = {k: v for k, v in os.environ.items() if k not in RANK_VARIABLES}
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env={**inherited, "PYTHONPATH": str(REPOSITORY), **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        # The session: torchrun's ranks would outlive it.
        os.killpg(process.pid, signal.SIGKILL)
        raise AssertionError("hung:\n" + "".join(process.communicate())) from None
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def torchrun(ranks: int) -> list[str]:
    """The arguments to start ``ranks`` ranks of a script."""
    return ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]


def _variables(rank: int, size: int, port: int) -> dict[str, str]:
    if size == 1:
        return {}
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def _fork(job: Callable[[], Any] | None, base: Path, variables: dict[str, str]) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    if job is None:
        os._exit(0)
    gc.freeze()  # a collection would touch, and so copy, every object of torch
    try:
        _become_rank(base, variables)
        base.with_suffix(".value").write_bytes(pickle.dumps(job()))
        sys.stdout.flush()
        sys.stderr.flush()
        if dist.is_initialized():
            dist.destroy_process_group()
        os._exit(0)
    except BaseException:
        # As the interpreter ends a script. A hook that ends the process does not come back.
        try:
            sys.excepthook(*sys.exc_info())
            traceback.print_exc()
            sys.stderr.flush()
        finally:  # where nothing can be written either, it must not go on with the parent's tests
            os._exit(99)


def _become_rank(base: Path, variables: dict[str, str]) -> None:
    for number, suffix in ((1, ".out"), (2, ".err")):
        target = os.open(base.with_suffix(suffix), os.O_WRONLY | os.O_CREAT)
        os.dup2(target, number)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    sys.excepthook = sys.__excepthook__
    faulthandler.register(signal.SIGUSR1, sys.stderr)
    for name in RANK_VARIABLES:
        os.environ.pop(name, None)
    os.environ.update(variables)


def _call(job: Callable[[], Any]) -> Any:
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    dd.init()
    return job()


def _run_script(script: Path) -> NoReturn:
    atexit._clear()  # what is to be done at the end of the tests
    os.chdir(script.parent)
    sys.argv = [script.name]
    try:
        leave(runpy.run_path(script.name, run_name="__main__"))
    except BaseException as end:
        code = end.code if isinstance(end, SystemExit) else None
        if not isinstance(code, int):
            sys.excepthook(*sys.exc_info())
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def _wait(pids: list[int], deadline: float) -> list[int | None]:
    codes: dict[int, int] = {}
    while len(codes) < len(pids) and time.monotonic() < deadline:
        for pid in (p for p in pids if p not in codes):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                codes[pid] = os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    hung = [p for p in pids if p not in codes]
    for pid in hung:
        os.kill(pid, signal.SIGUSR1)  # they write where they hang
    time.sleep(bool(hung))
    for pid in hung:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return [codes.get(pid) for pid in pids]


def _outcome(code: int | None, base: Path) -> Outcome:
    value_file = base.with_suffix(".value")
    value = pickle.loads(value_file.read_bytes()) if value_file.exists() else None
    texts = [base.with_suffix(s) for s in (".out", ".err")]
    out, err = (t.read_text() if t.exists() else "" for t in texts)
    return Outcome(-1 if code is None else code, value, out, err)


def assert_close(found: Any, expected: Any, *, rtol: float = 1e-11, at: str = "result") -> None:
    """Two trees of tensors, numbers and other values are equal, floats up to summation order."""
    assert type(found) is type(expected), f"{at}: {type(found)} is not {type(expected)}"
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), at
        for key in expected:
            assert_close(found[key], expected[key], rtol=rtol, at=f"{at}[{key!r}]")
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), f"{at}: {len(found)} of {len(expected)}"
        for i, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_close(one, other, rtol=rtol, at=f"{at}[{i}]")
    elif isinstance(expected, torch.Tensor):
        torch.testing.assert_close(
            found, expected, rtol=rtol, atol=rtol, msg=lambda m: f"{at}: {m}"
        )
    elif isinstance(expected, float):
        assert abs(found - expected) <= rtol * max(1.0, abs(expected)), f"{at}: {found}, {expected}"
    else:
        assert found == expected, f"{at}: {found!r} is not {expected!r}"


def assert_same(job: Callable[[], Any], *, sizes: tuple[int, ...] = (2, 3)) -> Any:
    """``job`` gives the same on every rank of every size as in one process, which is returned."""
    expected = run(job, 1)[0]
    for size in sizes:
        for place, found in enumerate(run(job, size)):
            assert_close(found, expected, at=f"rank {place} of {size}")
    return expected
