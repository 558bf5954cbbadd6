"""`ddpify launch`: checks what is asked for, and makes the file."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from ddpify.errors import DdpifyError, ExitCode
from ddpify.launching.kubernetes import indexed_job, pytorchjob
from ddpify.launching.launch import Launch
from ddpify.launching.slurm import slurm
from ddpify.launching.torchrun import torchrun

SYSTEMS: dict[str, Callable[[Launch], str]] = {
    "torchrun": torchrun,
    "slurm": slurm,
    "kubernetes": indexed_job,
    "kubeflow": pytorchjob,
}
_TRAINS = re.compile(r"\.backward\(")
_DISTRIBUTED = re.compile(r"distributed|ddpify|LOCAL_RANK|torchrun")


def launch_file(launch: Launch, system: str) -> str:
    """The launch file's text.

    Raises:
        DdpifyError: The system is unknown, the hosts are not as many as the nodes (exit code 2), or
            the script trains in one process only (exit code 1).
    """
    if system not in SYSTEMS:
        *others, last = SYSTEMS
        raise _usage(f"unknown system {system!r}", f"use --on {', '.join(others)} or {last}")
    if launch.hosts and len(launch.hosts) != launch.nodes:
        counts = f"{len(launch.hosts)} host(s) for {launch.nodes} node(s)"
        raise _usage(counts, "name each node once in --hosts, the first one first")
    _check_script(Path(launch.script))
    return SYSTEMS[system](launch)


def _usage(message: str, remedy: str) -> DdpifyError:
    return DdpifyError(message, remedy=remedy, exit_code=ExitCode.USAGE)


def _check_script(script: Path) -> None:
    """A script that is here must be distributed; one that is only on the nodes cannot be seen."""
    from ddpify.understanding.libraries.frameworks import frameworks_of

    if not script.is_file():
        return
    text = script.read_text(encoding="utf-8", errors="replace")
    step = _TRAINS.search(text)
    if step is None or _DISTRIBUTED.search(text) or frameworks_of(text):
        return
    raise DdpifyError(
        "this script trains in one process: started on many, each would train by itself",
        path=str(script),
        line=text.count("\n", 0, step.start()) + 1,
        remedy=f"convert it first: ddpify convert {script} -o {script.stem}_ddp.py",
    )
