"""What is to be launched, and what all launch files say alike."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from ddpify.launching.options import KubernetesOptions, SlurmOptions
from ddpify.launching.quoting import shell_word

PORT = 29500
USUAL_CORES = 8
"""CPU cores of a process and its loader workers, where nothing is said."""
ELASTIC_RESTARTS = 3
"""How often torchrun starts again where nodes may leave: each that leaves costs one restart."""
JOIN_SECONDS = 900
"""Seconds that nodes wait for each other at the start: queues and image pulls are uneven."""


@dataclass(frozen=True)
class Launch:
    """A distributed script on a number of nodes.

    Attributes:
        script: The script's path as the nodes see it, or a module where ``module`` is set.
        args: The script's own arguments.
        nodes: Number of nodes, at least 1; the most of them where it is a range.
        least_nodes: The fewest nodes that training goes on with; 0 for ``nodes``.
        per_node: Processes on each node: its GPUs, or any number on the CPU; 0 for one a GPU of
            whatever node it is, as torchrun's ``auto``.
        cpu: Whether to train on the CPU, so that no GPU is asked for.
        name: The job's name; "" for one made of the script's.
        hosts: Names or addresses of the nodes, the first one first; empty where the cluster knows.
        port: The port of the rendezvous on the first node.
        interface: The network interface to use; "" for what the backends choose.
        ib_hca: The InfiniBand devices that NCCL uses; "" for what it chooses.
        nccl_debug: The folder for NCCL's own messages, a file for each process; "" for none.
        variables: Further environment variables.
        setup: Shell commands to run before torchrun, on each node.
        cpus_per_process: CPU cores for each process and its loader workers; None for the system's
            usual number.
        memory: GiB of each node's memory; 0 for the cluster's own choice.
        max_restarts: How often torchrun starts all processes again after a failure; None for its
            usual number.
        log_dir: The folder for the ranks' output, a file each; "" for the terminal alone.
        module: Whether ``script`` is a module, as for ``python -m``.
        slurm: What only Slurm knows.
        kubernetes: What only Kubernetes knows.
    """

    script: str
    args: Sequence[str] = field(default_factory=tuple)
    nodes: int = 1
    least_nodes: int = 0
    per_node: int = 1
    cpu: bool = False
    name: str = ""
    hosts: Sequence[str] = field(default_factory=tuple)
    port: int = PORT
    interface: str = ""
    ib_hca: str = ""
    nccl_debug: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    setup: Sequence[str] = field(default_factory=tuple)
    cpus_per_process: int | None = None
    memory: int = 0
    max_restarts: int | None = None
    log_dir: str = ""
    module: bool = False
    slurm: SlurmOptions = field(default_factory=SlurmOptions)
    kubernetes: KubernetesOptions = field(default_factory=KubernetesOptions)

    @property
    def job_name(self) -> str:
        """A name that Slurm, DNS and Kubernetes take: a-z, 0-9 and -, at most 52 characters."""
        own = self.script if self.module else PurePath(self.script).stem
        name = (self.name or own).lower()
        name = re.sub(r"[^a-z0-9]+", "-", name).strip("-")
        # Kubernetes adds the pod's number and a suffix to it, within 63 characters.
        return (name if name[:1].isalpha() else f"job-{name}")[:52].strip("-")

    @property
    def title(self) -> str:
        """One line: what runs where."""
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes} nodes"
        if self.elastic:
            nodes = f"{self.least_nodes} to {nodes}"
        processes = "1 process" if self.per_node == 1 else f"{self.per_node} processes"
        processes = processes if self.per_node else "1 process a GPU"
        each = " each" if self.nodes > 1 else ""
        on = " on the CPU" if self.cpu else ""
        return f"{self.script} on {nodes} with {processes}{each}{on}"

    @property
    def elastic(self) -> bool:
        """Whether training may go on with fewer nodes."""
        return 0 < self.least_nodes < self.nodes

    @property
    def nnodes(self) -> str:
        """The number of nodes as torchrun takes it."""
        return f"{self.least_nodes}:{self.nodes}" if self.elastic else str(self.nodes)

    def cores(self, usual: int) -> int:
        """CPU cores of a node. ``usual``: of a process, where it is not said."""
        return self.per_node * (self.cpus_per_process or usual)

    @property
    def command(self) -> list[str]:
        """The script and its arguments, each quoted for a shell."""
        return [shell_word(part) for part in self.words]

    @property
    def words(self) -> list[str]:
        """The script or module and its arguments, as torchrun takes them."""
        return [*(["-m"] if self.module else []), self.script, *self.args]

    @property
    def restarts(self) -> int:
        """How often torchrun starts all processes again after a failure."""
        usual = ELASTIC_RESTARTS if self.elastic else 0
        return usual if self.max_restarts is None else self.max_restarts

    @property
    def environment(self) -> dict[str, str]:
        """Variables that every process needs."""
        variables = {}
        if self.interface:
            variables = {"GLOO_SOCKET_IFNAME": self.interface}
            if not self.cpu:
                variables["NCCL_SOCKET_IFNAME"] = self.interface
        if self.ib_hca:
            variables["NCCL_IB_HCA"] = self.ib_hca
        if self.nodes > 1 and self.restarts:
            variables["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
        if self.nccl_debug:
            variables["NCCL_DEBUG"] = "INFO"
            variables["NCCL_DEBUG_FILE"] = f"{self.nccl_debug.rstrip('/')}/nccl.%h.%p.log"
        if self.cpu:
            variables["OMP_NUM_THREADS"] = str(self.cpus_per_process or USUAL_CORES)
        return {**variables, **self.variables}

    @property
    def before(self) -> list[str]:
        """Commands that each node runs before torchrun: NCCL makes no folder for its files."""
        return [f"mkdir -p {self.nccl_debug}"] if self.nccl_debug else []

    def options(self) -> list[str]:
        """torchrun's options that are the same on all nodes, but for the rendezvous."""
        options = [f"--nproc-per-node={self.per_node or 'auto'}"]
        if self.restarts:
            options.append(f"--max-restarts={self.restarts}")
        return options

    def logs(self, node: str) -> list[str]:
        """torchrun's options for the ranks' output, in a folder of the node's name; "" for none."""
        if not self.log_dir:
            return []
        folder = "/".join(filter(None, [self.log_dir.rstrip("/"), node]))
        return [f"--log-dir={folder}", "--redirects=3", "--tee=3"]

    def rendezvous(self, run: str, endpoint: str) -> list[str]:
        """torchrun's options for meeting the other nodes, the same on all of them.

        Args:
            run: A name that no other run at the same time has.
            endpoint: The first node's ``address:port``.
        """
        return [
            f"--nnodes={self.nnodes}",
            f"--rdzv-id={run}",
            "--rdzv-backend=c10d",
            f"--rdzv-endpoint={endpoint}",
        ]

    def own_place(self, is_host: str, address: str) -> list[str]:
        """torchrun's options that say which node this is, within double quotes for a shell.

        Args:
            is_host: "1" on the first node and "0" on the others. Without it, torchrun compares
                names and addresses, and finds no first node where a node has several of them.
            address: How the other nodes reach this one. Without it, torchrun gives them its host
                name, which they may not know.
        """
        place = [f"--rdzv-conf=is_host={is_host},{waits(None)}", f"--local-addr={address}"]
        return [f'"{option}"' for option in (*place, *self.logs(address))]


def waits(is_host: bool | None) -> str:
    """The rendezvous's settings: how long nodes wait, and whether this is the first (if known)."""
    text = f"join_timeout={JOIN_SECONDS},read_timeout={JOIN_SECONDS}"
    return text if is_host is None else f"is_host={int(is_host)},{text}"


def comment(text: str, width: int = 98) -> list[str]:
    """``text`` as comment lines of a shell script or a YAML file."""
    import textwrap

    return textwrap.wrap(text, width, initial_indent="# ", subsequent_indent="# ")


def continued(parts: Sequence[str], indent: str = "  ") -> str:
    """One shell command over several lines."""
    return f" \\\n{indent}".join(parts)


def strict(setup: Sequence[str]) -> list[str]:
    """The lines of a bash script that set it up, and let it end where a command fails.

    Activation scripts of environments read variables that are not set: until they are done, that
    is no failure.
    """
    return ["set -eo pipefail", *setup, "set -u"] if setup else ["set -euo pipefail"]
