"""`ddpify run`: torchrun on this machine, on one of several, or over ssh on all that are named."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ddpify.launching.command import check_script
from ddpify.launching.launch import ELASTIC_RESTARTS, PORT, waits
from ddpify.launching.values import usage
from ddpify.launching.waiting import over_all

_OF_SEVERAL = ("main-address", "node-rank", "port", "interface")
"""Options that say how several nodes meet."""


@dataclass(frozen=True)
class Run:
    """What is started where.

    Attributes:
        script: A script, or a module where ``module`` is set.
        args: The script's own arguments.
        nproc: Processes on each node: a number, or auto, gpu or cpu as torchrun takes them.
        nodes: The fewest and the most nodes.
        hosts: The nodes to start on over ssh, the first one first; empty for this machine.
        node_rank: Which of several nodes this is; None where torchrun finds out.
        address: The first node, where there are several and no ``hosts``.
        port: The rendezvous's port on the first node.
        log_dir: The folder for the ranks' output, a file each; None for the terminal alone.
        max_restarts: How often torchrun starts all processes again; None for its usual number.
        variables: Environment variables to set.
        ssh: The command that runs another one on a host, which follows it.
    """

    script: str
    args: Sequence[str] = ()
    module: bool = False
    nproc: str = "auto"
    nodes: tuple[int, int] = (1, 1)
    hosts: Sequence[str] = ()
    node_rank: int | None = None
    address: str = ""
    port: int = PORT
    log_dir: Path | None = None
    max_restarts: int | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    ssh: str = "ssh -tt -o BatchMode=yes"

    @property
    def restarts(self) -> int:
        """How often torchrun starts all processes again: a node that leaves costs one."""
        elastic = self.nodes[0] < self.nodes[1]
        return self.max_restarts if self.max_restarts is not None else elastic * ELASTIC_RESTARTS


def commands(run: Run) -> list[list[str]]:
    """The command of each process that this machine starts: one, or an ssh for each host.

    Raises:
        DdpifyError: The options do not go together (exit code 2), or the script trains in one
            process (exit code 1).
    """
    _check(run)
    if run.hosts:
        return [_over_ssh(run, number) for number in range(len(run.hosts))]
    return [_torchrun(run, _meeting(run), "")]


def start(run: Run) -> int:
    """Start training, and wait for its end. Returns the exit code of the node that failed, or 0.

    On this machine alone torchrun takes the place of this process, and this does not return.

    Raises:
        DdpifyError: As of :func:`commands`, or the command that reaches hosts is not there.
    """
    started = commands(run)
    if not run.hosts:
        sys.stdout.flush()
        os.execve(started[0][0], started[0], {**os.environ, **run.variables})
    if shutil.which(started[0][0]) is None:
        raise usage(f"no such command: {started[0][0]}", "name another one with --ssh")
    return over_all(started, run.hosts, least=_nodes_of(run)[0])


def _check(run: Run) -> None:
    if run.nproc not in ("auto", "gpu", "cpu") and not (run.nproc.isdecimal() and int(run.nproc)):
        remedy = "use a number, auto, gpu or cpu"
        raise usage(f"not a number of processes: --nproc {run.nproc}", remedy)
    if run.log_dir is not None and run.log_dir.exists() and not run.log_dir.is_dir():
        raise usage(f"--log-dir {run.log_dir} is a file", "name a folder")
    _check_nodes(run)
    if not run.module:
        check_script(Path(run.script))
    if not run.hosts and not _is_here(run):
        kind = "module" if run.module else "script"
        raise usage(f"no such {kind}: {run.script}", "name a script, or a module with -m")


def _is_here(run: Run) -> bool:
    """Whether this machine has what is to be started."""
    if not run.module:
        return Path(run.script).is_file()
    from importlib.machinery import PathFinder

    top = run.script.partition(".")[0]
    # As python -m looks for it: in this folder first.
    return PathFinder.find_spec(top, [os.getcwd(), *sys.path]) is not None


def _check_nodes(run: Run) -> None:
    if run.hosts and (run.address or run.node_rank is not None):
        remedy = "leave --main-address and --node-rank out: the first host is the main one"
        raise usage("--hosts starts all nodes, and needs no other one", remedy)
    if run.hosts and run.nodes[1] not in (1, len(run.hosts)):
        counts = f"{len(run.hosts)} host(s) for {run.nodes[1]} node(s)"
        raise usage(counts, "name each node once in --hosts, the first one first")
    if not run.hosts and run.nodes[1] > 1 and not run.address:
        remedy = "add --hosts to start on all of them over ssh, or --main-address on each"
        raise usage("several nodes have to know where they meet", remedy)
    if run.node_rank is not None and run.node_rank >= run.nodes[1] > 1:
        message = f"--node-rank {run.node_rank} of {run.nodes[1]} nodes"
        raise usage(message, f"nodes are numbered from 0 to {run.nodes[1] - 1}")


def check_given(given: Iterable[str], *, nodes: int, hosts: int) -> None:
    """A usage error for an option of several nodes where there is one.

    Args:
        given: Names of options on the command line, without dashes before them.
        nodes: The most nodes.
        hosts: How many hosts were named.
    """
    several = max(nodes, hosts) > 1
    for name in given:
        if name == "ssh" and not hosts:
            raise usage("--ssh does not apply without --hosts", "add --hosts, or leave it out")
        if name in _OF_SEVERAL and not several:
            remedy = "add --nodes or --hosts, or leave it out"
            raise usage(f"--{name} does not apply to one node", remedy)


def _torchrun(run: Run, meeting: Sequence[str], host: str) -> list[str]:
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={run.nproc}"]
    command += meeting
    if run.restarts:
        command.append(f"--max-restarts={run.restarts}")
    if run.log_dir is not None:
        # Each process's output goes to files of its own and to the terminal, with its rank.
        command += [f"--log-dir={run.log_dir / host}", "--redirects=3", "--tee=3"]
        command += [f"--role={host}:"] if host else []
    return [*command, *(["-m"] if run.module else []), run.script, *run.args]


def _meeting(run: Run) -> list[str]:
    """On this machine alone, or as one of several."""
    if run.nodes[1] == 1:
        return ["--standalone"]
    host = None if run.node_rank is None else run.node_rank == 0
    own = run.address if host else ""
    return _rendezvous(run, run.nodes, run.address, host, own)


def _rendezvous(
    run: Run, nodes: tuple[int, int], first: str, host: bool | None, own: str
) -> list[str]:
    least, most = nodes
    options = [
        f"--nnodes={most}" if least == most else f"--nnodes={least}:{most}",
        f"--rdzv-id={Path(run.script).stem}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={first}:{run.port}",
        f"--rdzv-conf={waits(host)}",
    ]
    return [*options, f"--local-addr={own}"] if own else options


def _nodes_of(run: Run) -> tuple[int, int]:
    """The fewest and the most of the hosts that train."""
    count = len(run.hosts)
    return (min(run.nodes[0], count) if run.nodes[1] > 1 else count, count)


def _over_ssh(run: Run, number: int) -> list[str]:
    """The same folder, interpreter and script are expected on each host."""
    host = run.hosts[number]
    meeting = _rendezvous(run, _nodes_of(run), run.hosts[0], number == 0, host)
    words = _torchrun(run, ["--standalone"] if len(run.hosts) == 1 else meeting, host)
    variables = [f"{name}={value}" for name, value in run.variables.items()]
    there = f"cd {shlex.quote(os.getcwd())} && exec {shlex.join(['env', *variables, *words])}"
    return [*shlex.split(run.ssh), host, there]
