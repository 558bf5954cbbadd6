"""Options of single systems, and to which systems an option applies."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ddpify.launching.values import slurm_seconds, usage


@dataclass(frozen=True)
class SlurmOptions:
    """What a Slurm job asks for; "" and 0 leave a line out.

    Attributes:
        time: The limit, as sbatch takes it.
        partition: Of the cluster.
        account: That pays.
        qos: The quality of service.
        gres: Generic resources, in place of ``--gpus-per-node``.
        exclusive: Whether other jobs stay off the nodes.
        requeue: Whether Slurm starts the job again after a preemption or a node's failure.
        signal: Seconds before the limit at which all processes get SIGTERM.
        modules: Environment modules to load.
        container: An image that Apptainer runs.
    """

    time: str = ""
    partition: str = ""
    account: str = ""
    qos: str = ""
    gres: str = ""
    exclusive: bool = False
    requeue: bool = False
    signal: int = 0
    modules: tuple[str, ...] = ()
    container: str = ""


@dataclass(frozen=True)
class KubernetesOptions:
    """What pods ask for.

    Attributes:
        image: The container image; "" for a placeholder.
        volumes: Claims of persistent volumes, and where they are mounted.
        deadline: Seconds that the job may run; None for any time.
        ttl: Seconds after which a finished job is deleted; None for never.
        rdma: A device for RDMA, and how many of it a pod needs.
        pod_restarts: How often each node's pod may be replaced after a failure.
        runtime: The training runtime of a TrainJob.
    """

    image: str = ""
    volumes: tuple[tuple[str, str], ...] = ()
    deadline: int | None = None
    ttl: int | None = None
    rdma: tuple[str, int] | None = None
    pod_restarts: int = 0
    runtime: str = "torch-distributed"


_GPUS = re.compile(r"(?:^|,)(?:gres/)?gpu(?::[A-Za-z_][\w.-]*)?(?::(\d+))?(?=$|,|\()")
_ONLY = {
    "hosts": ("torchrun",),
    "port": ("torchrun", "kubernetes"),
    "time": ("slurm",),
    "partition": ("slurm",),
    "account": ("slurm",),
    "qos": ("slurm",),
    "gres": ("slurm",),
    "exclusive": ("slurm",),
    "requeue": ("slurm",),
    "signal": ("slurm",),
    "load-module": ("slurm",),
    "container": ("slurm",),
    "setup": ("torchrun", "slurm", "kubernetes"),
    "memory": ("slurm", "kubernetes", "kubeflow", "trainjob"),
    "image": ("kubernetes", "kubeflow", "trainjob"),
    "volume": ("kubernetes", "kubeflow", "trainjob"),
    "deadline": ("kubernetes", "kubeflow", "trainjob"),
    "ttl": ("kubernetes", "kubeflow"),
    "rdma": ("kubernetes", "kubeflow", "trainjob"),
    "pod-restarts": ("kubernetes", "kubeflow"),
    "runtime": ("trainjob",),
}
"""Options that are not for all systems."""


def check_options(given: Iterable[str], system: str) -> None:
    """A usage error for the first option that does not apply to the system.

    Args:
        given: Names of options on the command line, without dashes before them.
        system: One of those that ``launch`` writes for.
    """
    for name in given:
        systems = _ONLY.get(name, (system,))
        if system not in systems:
            remedy = f"it is for --on {' or '.join(systems)}; leave it out"
            raise usage(f"--{name} does not apply to --on {system}", remedy)


def check_combinations(slurm: SlurmOptions, per_node: int, *, cpu: bool) -> None:
    """A usage error for options that exclude each other, or need each other.

    Args:
        slurm: What Slurm is asked for.
        per_node: Processes on each node.
        cpu: Whether to train on the CPU.
    """
    if slurm.signal and not slurm.time:
        raise usage("--signal counts from the time limit, and there is none", "add --time")
    limit = slurm_seconds(slurm.time)
    if limit is not None and slurm.signal >= limit:
        message = f"--signal {slurm.signal} is no shorter than the limit, which is {limit} s"
        raise usage(message, "give fewer seconds, or a longer --time")
    if slurm.gres and cpu:
        raise usage("--gres asks for devices, and --cpu for none", "give one of them")
    asked = _GPUS.search(slurm.gres)
    if asked and int(asked[1] or 1) != per_node:
        message = f"--gres {slurm.gres} for {per_node} process(es) on each node"
        raise usage(message, "ask for as many GPUs there as --gpus-per-node says")
