"""Kubernetes: an Indexed Job with a headless service, or a PyTorchJob of Kubeflow."""

from __future__ import annotations

import json
from collections.abc import Sequence
from textwrap import indent

from ddpify.launching.launch import Launch, comment, continued, own_place

IMAGE = "YOUR_IMAGE"

_SERVICE = """\
# A headless service gives each pod a name in the DNS, before it is ready as well: the rendezvous
# needs the first pod's.
apiVersion: v1
kind: Service
metadata:
  name: {name}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    job-name: {name}
  ports:
    - name: rendezvous
      port: {port}
"""
_JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
spec:
  # One pod a node, numbered from 0 (JOB_COMPLETION_INDEX); the first that fails ends the job.
  completionMode: Indexed
  completions: {nodes}
  parallelism: {nodes}
  backoffLimit: 0
  template:
    spec:
      subdomain: {name}
      restartPolicy: Never
"""
_PYTORCHJOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: {name}
spec:
  # The operator gives torchrun the number of nodes, each node's rank and the master's address.
  nprocPerNode: "{per_node}"
  runPolicy:
    cleanPodPolicy: None
  pytorchReplicaSpecs:
"""
_REPLICAS = """\
    {kind}:
      replicas: {count}
      restartPolicy: Never
      template:
        spec:
"""
_CONTAINER = """\
containers:
  - name: {container}
    image: {image}
"""
_SHARED_MEMORY = """\
    volumeMounts:
      # Loader workers hand over batches in shared memory, of which a container has 64 MiB.
      - name: shared-memory
        mountPath: /dev/shm
volumes:
  - name: shared-memory
    emptyDir:
      medium: Memory
"""


def indexed_job(launch: Launch) -> str:
    """The text of a headless service and an Indexed Job, which need no operator."""
    name = launch.job_name
    service = _SERVICE.format(name=name, port=launch.port)
    job = _JOB.format(name=name, nodes=launch.nodes)
    args = "args:\n  - |\n" + indent(_start(launch), " " * 4)
    pod = _pod(launch, "train", ["/bin/sh", "-c"], args)
    kubeflow = "With Kubeflow's training operator: ddpify launch --on kubeflow."
    return _head(launch, kubeflow) + service + "---\n" + job + indent(pod, " " * 6)


def _start(launch: Launch) -> str:
    """The pod's shell script: pods are called NAME-0, NAME-1, ..., in the domain NAME."""
    name = launch.job_name
    place = own_place("$is_host", f"{name}-$JOB_COMPLETION_INDEX.{name}")
    parts = [
        "exec torchrun",
        *launch.rendezvous(name, f"{name}-0.{name}:{launch.port}"),
        *(f'"{option}"' for option in place),
        *launch.options(),
        _literal(" ".join(launch.command)),
    ]
    test = 'if [ "$JOB_COMPLETION_INDEX" = 0 ]; then is_host=1; else is_host=0; fi'
    return f"{test}\n{continued(parts)}\n"


def pytorchjob(launch: Launch) -> str:
    """The text of a PyTorchJob, for Kubeflow's training operator (API kubeflow.org/v1)."""
    text = _head(launch, "Needs Kubeflow's training operator; without it: --on kubernetes.")
    text += _PYTORCHJOB.format(name=launch.job_name, per_node=launch.per_node)
    for kind, count in (("Master", 1), ("Worker", launch.nodes - 1)):
        if count:
            text += _REPLICAS.format(kind=kind, count=count)
            text += indent(_pod(launch, "pytorch", _torchrun(launch), ""), " " * 10)
    return text


def _torchrun(launch: Launch) -> list[str]:
    restarts = [f"--max-restarts={launch.max_restarts}"] if launch.max_restarts else []
    return ["torchrun", *restarts, *map(_literal, (launch.script, *launch.args))]


def _head(launch: Launch, hint: str) -> str:
    lines = comment(f"{launch.title}: kubectl apply -f THIS_FILE")
    if not launch.image:
        lines += comment(f"Replace {IMAGE} by an image with torch and {launch.script} (--image).")
    return "\n".join([*lines, *comment(hint)]) + "\n"


def _pod(launch: Launch, container: str, command: Sequence[str], args: str) -> str:
    text = _CONTAINER.format(container=container, image=_quoted(launch.image or IMAGE))
    text += "    command:\n" + "".join(f"      - {_quoted(part)}\n" for part in command)
    text += indent(args + _variables(launch) + _resources(launch), " " * 4)
    return text + _SHARED_MEMORY


def _variables(launch: Launch) -> str:
    if not launch.environment:
        return ""
    items = launch.environment.items()
    return "env:\n" + "".join(f'  - name: {name}\n    value: "{value}"\n' for name, value in items)


def _resources(launch: Launch) -> str:
    cores = launch.per_node * launch.cpus_per_process
    text = f"resources:\n  requests:\n    cpu: {cores}\n"
    return text if launch.cpu else f"{text}  limits:\n    nvidia.com/gpu: {launch.per_node}\n"


def _quoted(text: str) -> str:
    """A YAML string; JSON's are YAML too."""
    return json.dumps(text)


def _literal(text: str) -> str:
    """Kubernetes replaces ``$(NAME)`` in commands; ``$$(NAME)`` stands for itself."""
    return text.replace("$(", "$$(")
