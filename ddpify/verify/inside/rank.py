"""One rank: a forked process that becomes the script's own interpreter and ends with it."""

from __future__ import annotations

import atexit
import faulthandler
import io
import os
import random
import signal
import sys
import threading
import traceback
import types
import warnings
from pathlib import Path
from typing import Any, NoReturn

import ddpify
from ddpify.verify.inside import (
    chance,
    conversions,
    ghost,
    gpu_parts,
    groups,
    imports,
    output,
    precision,
    rank_processes,
    redirect,
    spawning,
    surroundings,
)
from ddpify.verify.inside.guard import Guard
from ddpify.verify.inside.recorder import Recorder
from ddpify.verify.inside.replay import Replay
from ddpify.verify.inside.world import World
from ddpify.verify.launch.job import Job

SEED = 20_240_229


def become(job: Job, rank: int, port: int) -> NoReturn:
    """Run the job's script as ``rank``; never returns."""
    out = Path(job.out)
    _streams(out, rank)
    os.environ.update(environment(job, rank, port))
    os.chdir(job.cwd)
    stacks = (out / f"rank{rank}.stack").open("a")
    faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=False, chain=False)
    status = 1
    try:
        recorder = _prepare(job, rank)
        status = _execute(job, recorder)
    except BaseException:  # verify's own trouble, which nobody would see otherwise
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def environment(job: Job, rank: int, port: int) -> dict[str, str]:
    """The variables that torchrun sets for several ranks, and no GPU unless asked for."""
    hidden = {} if job.gpus else {"CUDA_VISIBLE_DEVICES": ""}
    variables = {**hidden, "OMP_NUM_THREADS": "1", **job.env}
    if job.world_size == 1:
        return variables
    world, own = str(job.world_size), str(rank)
    return {
        **variables,
        "RANK": own,
        "LOCAL_RANK": own,
        "ROLE_RANK": own,
        "GROUP_RANK": "0",
        "WORLD_SIZE": world,
        "LOCAL_WORLD_SIZE": world,
        "ROLE_WORLD_SIZE": world,
        "GROUP_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
    }


def _streams(out: Path, rank: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for descriptor, name in ((1, "out"), (2, "err")):
        file = os.open(out / f"rank{rank}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, descriptor)
        os.close(file)
    sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False), encoding="utf-8")
    sys.stdout, sys.stderr = _writer(1), _writer(2)
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr  # type: ignore[misc]


def _writer(descriptor: int) -> io.TextIOWrapper:
    raw = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw), "utf-8", "backslashreplace", line_buffering=True
    )


def _prepare(job: Job, rank: int) -> Recorder:
    sys.dont_write_bytecode = True
    warnings.filterwarnings("ignore", message=".*use of fork.*", category=DeprecationWarning)
    precision.install()
    chance.install(gpus=job.gpus, equal_at=job.equal_at, compared=not job.checking)
    groups.install()
    gpu_parts.install()
    if job.cuda:
        redirect.install(max(job.world_size, 1))
    world = World(cuda=job.cuda, noise=job.noise)
    replay = Replay(job.replay) if job.replay else None
    if job.ghost:
        ghost.install(job.ghost, replay, strided=job.strided)
    recorder = Recorder(f"{job.out}/rank{rank}.jsonl", world, job, replay)
    recorder.install()
    if rank and job.listings:
        surroundings.install(rank, recorder.listed)
    _seed(rank)
    world.__enter__()  # type: ignore[no-untyped-call]
    Guard(job, recorder.emit, recorder.caller).install()
    if job.checking:
        spawning.install(rank, job.world_size, recorder.forget)
        rank_processes.install(rank, job.world_size, Path(job.root), recorder.forget)
        sinks = recorder.follow_numbers(job.root)
        output.install(recorder.emit, recorder.caller, sinks.printed)
    return recorder


def _seed(rank: int) -> None:
    """The same start for every run that is compared. Other ranks start elsewhere, as separate
    processes
    do: what a script leaves to luck then shows."""
    import torch

    seed = SEED + 7919 * rank
    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def _execute(job: Job, recorder: Recorder) -> int:
    """Run the script as ``__main__`` and end as the interpreter would; the exit status."""
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=job.script, __builtins__=__builtins__)
    sys.modules["__main__"] = main
    _hide_the_judge()
    sys.argv = [job.shown_as, *job.args]
    imports.lead(job.leads)
    sys.path.insert(0, str(Path(job.script).parent))
    status = 0
    try:
        source = Path(job.script).read_bytes()
        text = conversions.followed(source, job.script) if job.checking else source
        exec(compile(text, job.script, "exec", dont_inherit=True), main.__dict__)
    except SystemExit as error:
        status = _exit_status(error.code)
    except BaseException as error:
        status = 1
        recorder.finish()
        # The frames of the script alone: this one is not the script's.
        error.__traceback__ = error.__traceback__.tb_next if error.__traceback__ else None
        sys.excepthook(type(error), error, error.__traceback__)
    else:
        _join_threads()
    recorder.finish()
    atexit._run_exitfuncs()
    return status


def _hide_the_judge() -> None:
    """Take verify's modules out of the script's reach; the guard refuses to import them anew."""
    for name in [name for name in sys.modules if name.startswith("ddpify.verify")]:
        del sys.modules[name]
    vars(ddpify).pop("verify", None)


def _exit_status(code: Any) -> int:
    if code is None or isinstance(code, int):
        return (code or 0) & 0xFF
    print(code, file=sys.stderr)
    return 1


def _join_threads() -> None:
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
