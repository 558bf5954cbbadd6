"""What is to be launched, and what all launch files say alike."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

PORT = 29500
JOIN_SECONDS = 900
"""Seconds that nodes wait for each other at the start: queues and image pulls are uneven."""


@dataclass(frozen=True)
class Launch:
    """A distributed script on a number of nodes.

    Attributes:
        script: The script's path as the nodes see it.
        args: The script's own arguments.
        nodes: Number of nodes, at least 1.
        per_node: Processes on each node: its GPUs, or any number on the CPU.
        cpu: Whether to train on the CPU, so that no GPU is asked for.
        name: The job's name; "" for one made of the script's.
        hosts: Names or addresses of the nodes, the first one first; empty where the cluster knows.
        port: The port of the rendezvous on the first node.
        interface: The network interface to use; "" for what the backends choose.
        cpus_per_process: CPU cores for each process and its loader workers.
        max_restarts: How often torchrun starts all processes again after a failure.
        time: The limit of a Slurm job, as Slurm writes it; "" for the partition's own.
        image: The container image; "" for a placeholder.
    """

    script: str
    args: Sequence[str] = field(default_factory=tuple)
    nodes: int = 1
    per_node: int = 1
    cpu: bool = False
    name: str = ""
    hosts: Sequence[str] = field(default_factory=tuple)
    port: int = PORT
    interface: str = ""
    cpus_per_process: int = 8
    max_restarts: int = 0
    time: str = ""
    image: str = ""

    @property
    def job_name(self) -> str:
        """A name that Slurm, DNS and Kubernetes take: a-z, 0-9 and -, at most 52 characters."""
        name = (self.name or PurePath(self.script).stem).lower()
        name = re.sub(r"[^a-z0-9]+", "-", name).strip("-")
        # Kubernetes adds the pod's number and a suffix to it, within 63 characters.
        return (name if name[:1].isalpha() else f"job-{name}")[:52].strip("-")

    @property
    def title(self) -> str:
        """One line: what runs where."""
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes} nodes"
        processes = "1 process" if self.per_node == 1 else f"{self.per_node} processes"
        each = " each" if self.nodes > 1 else ""
        on = " on the CPU" if self.cpu else ""
        return f"{self.script} on {nodes} with {processes}{each}{on}"

    @property
    def command(self) -> list[str]:
        """The script and its arguments, each quoted for a shell."""
        return [_quoted(part) for part in (self.script, *self.args)]

    @property
    def environment(self) -> dict[str, str]:
        """Variables that every process needs."""
        variables = {}
        if self.interface:
            variables = {"GLOO_SOCKET_IFNAME": self.interface}
            if not self.cpu:
                variables["NCCL_SOCKET_IFNAME"] = self.interface
        if self.cpu:
            variables["OMP_NUM_THREADS"] = str(self.cpus_per_process)
        return variables

    def options(self) -> list[str]:
        """torchrun's options that are the same on all nodes, but for the rendezvous."""
        options = [f"--nproc-per-node={self.per_node}"]
        if self.max_restarts:
            options.append(f"--max-restarts={self.max_restarts}")
        return options

    def rendezvous(self, run: str, endpoint: str) -> list[str]:
        """torchrun's options for meeting the other nodes, the same on all of them.

        Args:
            run: A name that no other run at the same time has.
            endpoint: The first node's ``address:port``.
        """
        return [
            f"--nnodes={self.nodes}",
            f"--rdzv-id={run}",
            "--rdzv-backend=c10d",
            f"--rdzv-endpoint={endpoint}",
        ]


def own_place(is_host: str, address: str) -> list[str]:
    """torchrun's options that say which node this is.

    Args:
        is_host: "1" on the first node and "0" on the others. Without it, torchrun compares names
            and addresses, and finds no first node where a node has several of them.
        address: How the other nodes reach this one. Without it, torchrun gives them its host name,
            which they may not know.
    """
    waits = f"join_timeout={JOIN_SECONDS},read_timeout={JOIN_SECONDS}"
    return [f"--rdzv-conf=is_host={is_host},{waits}", f"--local-addr={address}"]


def _quoted(word: str) -> str:
    """A word for a shell. What could look like a variable meant to be expanded is escaped."""
    if "$" in word or "`" in word:
        return '"' + re.sub(r'([\\$`"])', r"\\\1", word) + '"'
    return shlex.quote(word)


def comment(text: str, width: int = 98) -> list[str]:
    """``text`` as comment lines of a shell script or a YAML file."""
    import textwrap

    return textwrap.wrap(text, width, initial_indent="# ", subsequent_indent="# ")


def continued(parts: Sequence[str], indent: str = "  ") -> str:
    """One shell command over several lines."""
    return f" \\\n{indent}".join(parts)
