"""A pod that trains, as YAML: the part that an Indexed Job and a PyTorchJob have in common."""

from __future__ import annotations

import json
from collections.abc import Sequence
from textwrap import indent

from ddpify.launching.launch import Launch, comment
from ddpify.launching.variables import MEANING

IMAGE = "YOUR_IMAGE"
USUAL_CORES = 3
"""CPU cores that a process asks for, where nothing is said: they fit nodes of 4 cores a GPU. A
request is the least that a pod gets; it also uses what is idle."""
_SNAPSHOT_SECONDS = 60


def head(launch: Launch, hint: str) -> str:
    """Comments at the top of the file."""
    lines = comment(f"{launch.title}: kubectl apply -f THIS_FILE")
    if not launch.kubernetes.image:
        lines += comment(f"Replace {IMAGE} by an image with torch and {launch.script} (--image).")
    return "\n".join([*lines, *comment(hint)]) + "\n"


def pod(launch: Launch, container: str, command: Sequence[str], args: str) -> str:
    """The fields of a pod's ``spec`` that say what runs in it, unindented."""
    text = f"containers:\n  - name: {container}\n    image: {image(launch)}\n"
    text += "    command:\n" + "".join(f"      - {quoted(part)}\n" for part in command)
    inner = args + environment(launch) + f"resources:\n{indent(resources(launch), '  ')}"
    inner += _security(launch) + mounts(launch)
    text += indent(inner, " " * 4) + volumes(launch)
    if launch.kubernetes.pod_restarts:
        text += "# Time for a snapshot after SIGTERM.\n"
        text += f"terminationGracePeriodSeconds: {_SNAPSHOT_SECONDS}\n"
    return text


def image(launch: Launch) -> str:
    """The image's name, quoted."""
    return quoted(launch.kubernetes.image or IMAGE)


def environment(launch: Launch) -> str:
    """``env``, with a comment for each variable that is known; empty where there are none."""
    lines = ["env:"]
    for name, value in launch.environment.items():
        lines += [f"  # {MEANING[name]}"] if name in MEANING else []
        # Kubernetes would put other variables in place of $(NAME).
        lines += [f"  - name: {name}", f"    value: {quoted(literal(value))}"]
    return "\n".join(lines) + "\n" if len(lines) > 1 else ""


def resources(launch: Launch) -> str:
    """``requests`` and ``limits`` of one node's pod."""
    requests: dict[str, object] = {"cpu": launch.cores(USUAL_CORES)}
    limits: dict[str, object] = {}
    if launch.memory:
        requests["memory"] = limits["memory"] = f"{launch.memory}Gi"
    if not launch.cpu:
        limits["nvidia.com/gpu"] = launch.per_node
    if launch.kubernetes.rdma:
        name, count = launch.kubernetes.rdma
        limits[name] = count
    text = "requests:\n" + "".join(f"  {name}: {value}\n" for name, value in requests.items())
    named = "".join(f"  {name}: {value}\n" for name, value in limits.items())
    return text + (f"limits:\n{named}" if named else "")


def _security(launch: Launch) -> str:
    if not launch.kubernetes.rdma:
        return ""
    text = "securityContext:\n  capabilities:\n    # RDMA needs memory that is locked.\n"
    return text + "    add:\n      - IPC_LOCK\n"


def mounts(launch: Launch) -> str:
    """``volumeMounts`` of the container."""
    text = (
        "volumeMounts:\n"
        "  # Loader workers hand over batches in shared memory, of which a container has 64 MiB.\n"
        "  - name: shared-memory\n    mountPath: /dev/shm\n"
    )
    for number, (_, path) in enumerate(launch.kubernetes.volumes):
        text += f"  - name: volume-{number}\n    mountPath: {quoted(path)}\n"
    return text


def volumes(launch: Launch) -> str:
    """``volumes`` of the pod. All nodes mount a claim at once: it must allow that."""
    text = "volumes:\n  - name: shared-memory\n    emptyDir:\n      medium: Memory\n"
    for number, (claim, _) in enumerate(launch.kubernetes.volumes):
        shared = "  # Must allow ReadWriteMany.\n" if launch.nodes > 1 else ""
        text += f"{shared}  - name: volume-{number}\n    persistentVolumeClaim:\n"
        text += f"      claimName: {claim}\n"
    return text


def quoted(text: str) -> str:
    """A YAML string; JSON's are YAML too."""
    return json.dumps(text)


def literal(text: str) -> str:
    """Kubernetes replaces ``$(NAME)`` in commands; ``$$(NAME)`` stands for itself."""
    return text.replace("$(", "$$(")
