"""Run a script under torchrun's own agent, with faults injected into its ranks.

``python -m tests.elastic JOB...`` is torchrun for one node, except that ranks are forked from a
process that has imported torch: a restart takes a second. A JOB is a JSON file; ``faults`` gives,
for each attempt, what happens to which rank after how many optimizer steps. Beside it come JOB.out,
JOB.err and JOB.end: the exit code, and the seconds from the (last) fault to the end of all.

``python -m tests.elastic --torchrun JOB...`` starts real torchruns instead.
"""

from __future__ import annotations

import atexit
import json
import multiprocessing.process
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, record
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch.optim.optimizer import register_optimizer_step_post_hook


@record
def main(job: dict[str, Any]) -> None:
    """The agent: start the ranks, and start them again when one has failed."""
    torch.set_num_threads(1)
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=job["ranks"],
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        run_id=str(os.getpid()),
        max_restarts=job.get("restarts", 0),
        monitor_interval=0.1,
        start_method="fork",
    )
    try:
        elastic_launch(config, run_rank)(job)
    except ChildFailedError as error:
        sys.stdout.flush()
        print(error, file=sys.stderr, flush=True)
        sys.exit(1)


def run_rank(job: dict[str, Any]) -> None:
    """One rank: run the script as torchrun would."""
    # To multiprocessing a forked rank is a child like a loader's worker, which torchrun's is not.
    multiprocessing.process._parent_process = None  # type: ignore[attr-defined]
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    train(job)


def train(job: dict[str, Any]) -> None:
    """Run the script of a job in this rank, with its faults."""
    if job.get("double"):
        torch.set_default_dtype(torch.float64)
    attempt, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["RANK"])
    for fault in job["faults"]:
        fault["mark"] = job["mark"]
        if (fault["attempt"], fault["rank"]) == (attempt, rank):
            inject(fault)
    os.chdir(job["folder"])
    script = Path(job["script"])
    sys.path.insert(0, str(script.parent))
    sys.argv = [str(script), *job.get("args", [])]
    sys.excepthook = sys.__excepthook__
    try:
        runpy.run_path(str(script), run_name="__main__")
        _end_as_a_script()
    except SystemExit:
        _end_as_a_script()
        raise
    except BaseException:
        sys.excepthook(*sys.exc_info())
        raise


def _end_as_a_script() -> None:
    """What multiprocessing leaves out when it ends a child."""
    sys.stdout.flush()
    atexit._run_exitfuncs()


def inject(fault: dict[str, Any]) -> None:
    """Let a fault happen after ``step`` steps of one optimizer (0: before the script starts)."""
    steps: dict[int, int] = {}

    def after_step(optimizer: Any, *_: Any) -> None:
        steps[id(optimizer)] = steps.get(id(optimizer), 0) + 1
        if steps[id(optimizer)] == fault["step"] == max(steps.values()) and not fault.get("done"):
            fault["done"] = True
            happen(fault)

    if fault["step"] == 0:
        happen(fault)
    register_optimizer_step_post_hook(after_step)


def happen(fault: dict[str, Any]) -> None:
    """The fault itself."""
    kind = fault["kind"]
    Path(fault["mark"]).write_text(str(time.time()))
    if kind == "kill":
        _kill_after(fault.get("delay", 0.0))
    elif kind == "kill all":
        _kill_all()
    elif kind in ("kill written", "kill half-written", "kill all half-written"):
        _at_save(fault)
    elif kind == "raise":
        raise ValueError("an injected error")
    elif kind == "exit":
        sys.exit(3)
    elif kind == "stall":
        time.sleep(600)
    elif kind == "worker":
        _lose_worker()
    elif kind == "terminate":
        os.kill(os.getpid(), signal.SIGTERM)
    elif kind == "terminate all":
        os.kill(os.getppid(), signal.SIGTERM)
    else:
        raise AssertionError(kind)


def _kill_after(seconds: float) -> None:
    """SIGKILL, unless the script has ended before: what is over cannot be cut."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL))
    timer.daemon = True
    atexit.register(timer.cancel)
    timer.start()


def _lose_worker() -> None:
    """A loader worker dies while its batch is awaited."""
    data = torch.utils.data.TensorDataset(torch.zeros(8))
    loader = torch.utils.data.DataLoader(data, num_workers=1)
    batches: Any = iter(loader)
    os.kill(batches._workers[0].pid, signal.SIGKILL)
    list(batches)


def _kill_all() -> None:
    """SIGKILL for all ranks, this one last."""
    here = os.getpid()
    lists = Path(f"/proc/{os.getppid()}/task").glob("*/children")
    ranks = {int(pid) for path in lists for pid in path.read_text().split()}
    for pid in sorted(ranks, key=lambda pid: pid == here):
        os.kill(pid, signal.SIGKILL)


def _at_save(fault: dict[str, Any]) -> None:
    """Kill when the next snapshot has been written, in part or whole, but has no name yet."""
    plain = os.fsync

    def fsync(handle: Any) -> None:
        if "half" in fault["kind"]:
            os.ftruncate(handle, int(os.fstat(handle).st_size * fault.get("part", 0.5)))
        plain(handle)
        if "all" in fault["kind"]:
            _kill_all()
        os.kill(os.getpid(), signal.SIGKILL)

    os.__dict__["fsync"] = fsync


def read_job(path: Path) -> dict[str, Any]:
    """A job, with what it leaves out."""
    return {"faults": [], **json.loads(path.read_text()), "mark": str(path.with_suffix(".mark"))}


def run_torchrun(path: Path) -> None:
    """Run one job under torchrun itself, and write how it went."""
    job = read_job(path)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    launch += [f"--nproc-per-node={job['ranks']}", f"--max-restarts={job.get('restarts', 0)}"]
    with open(path.with_suffix(".out"), "w") as out, open(path.with_suffix(".err"), "w") as err:
        command = [*launch, "-m", "tests.elastic", "--rank", str(path)]
        done = subprocess.run(command, stdout=out, stderr=err, check=False)
    _write_end(path, done.returncode)


def _write_end(path: Path, code: int) -> None:
    mark = path.with_suffix(".mark")
    seconds = time.time() - float(mark.read_text()) if mark.exists() else 0.0
    path.with_suffix(".end").write_text(json.dumps({"code": code, "seconds": seconds}))


def run_job(path: Path) -> None:
    """Run one job in a child process, and write how it went."""
    job = read_job(path)
    child = os.fork()
    if child == 0:
        os.setsid()
        for number, suffix in ((1, ".out"), (2, ".err")):
            os.dup2(os.open(path.with_suffix(suffix), os.O_WRONLY | os.O_CREAT), number)
        code = 1
        try:
            main(job)
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    _write_end(path, os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "--rank":
        train(read_job(Path(sys.argv[2])))
    elif sys.argv[1] == "--torchrun":
        for name in sys.argv[2:]:
            run_torchrun(Path(name))
    else:
        for name in sys.argv[1:]:
            run_job(Path(name))
