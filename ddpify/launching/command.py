"""`ddpify launch`: checks what is asked for, and makes the file."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from ddpify.errors import DdpifyError
from ddpify.launching.kubeflow import pytorchjob, trainjob
from ddpify.launching.kubernetes import indexed_job
from ddpify.launching.launch import Launch
from ddpify.launching.options import check_combinations
from ddpify.launching.slurm import slurm
from ddpify.launching.torchrun import torchrun
from ddpify.launching.values import usage

SYSTEMS: dict[str, Callable[[Launch], str]] = {
    "torchrun": torchrun,
    "slurm": slurm,
    "kubernetes": indexed_job,
    "kubeflow": pytorchjob,
    "trainjob": trainjob,
}
_ELASTIC = ("torchrun", "kubeflow")
_TRAINS = re.compile(r"\.backward\(")
_DISTRIBUTED = re.compile(r"distributed|ddpify|LOCAL_RANK|torchrun")


def launch_file(launch: Launch, system: str) -> str:
    """The launch file's text.

    Raises:
        DdpifyError: The hosts are not as many as the nodes, or options exclude each other (exit
            code 2), or the script trains in one process only (exit code 1).
    """
    if launch.elastic and system not in _ELASTIC:
        raise usage(
            f"--on {system} takes one number of nodes, and no range",
            f"use --on {' or '.join(_ELASTIC)}, or --nodes {launch.nodes}",
        )
    if system == "torchrun" and launch.cpus_per_process and not launch.cpu:
        raise usage("torchrun reserves no CPU cores", "leave --cpus-per-process out, or add --cpu")
    if not launch.per_node and system != "torchrun":
        remedy = "say how many, as in --gpus-per-node 8"
        raise usage(f"--on {system} has to be told the number of GPUs of a node", remedy)
    check_combinations(launch.slurm, launch.per_node, cpu=launch.cpu)
    if launch.hosts and len(launch.hosts) != launch.nodes:
        counts = f"{len(launch.hosts)} host(s) for {launch.nodes} node(s)"
        raise usage(counts, "name each node once in --hosts, the first one first")
    if not launch.module:
        check_script(Path(launch.script))
    return SYSTEMS[system](launch)


def check_script(script: Path) -> None:
    """A script that is here must be distributed; one that is only on the nodes cannot be seen.

    Raises:
        DdpifyError: It trains in one process (exit code 1).
    """
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
