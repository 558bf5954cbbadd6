"""Kubeflow: a PyTorchJob of the training operator, and a TrainJob of Trainer v2."""

from __future__ import annotations

from textwrap import indent

from ddpify.launching.launch import Launch
from ddpify.launching.pods import (
    environment,
    head,
    image,
    literal,
    mounts,
    pod,
    quoted,
    resources,
    volumes,
)

_PYTORCHJOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: {name}
spec:
  # The operator gives torchrun the number of nodes, each node's rank and the master's address.
  nprocPerNode: "{per_node}"
"""
_ELASTIC = """\
  # Nodes may leave and come back: torchrun starts all processes again, on those that are there.
  elasticPolicy:
    rdzvBackend: c10d
    minReplicas: {least}
    maxReplicas: {most}
    maxRestarts: {restarts}
"""
_REPLICAS = """\
    {kind}:
      replicas: {count}
      restartPolicy: {restart}
      template:
        spec:
"""
_TRAINJOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: {name}
spec:
  # The runtime gives torchrun the number of nodes, each node's rank and the master's address.
  runtimeRef:
    name: {runtime}
"""
_PATCH = """\
  # Fields of Trainer 2.3: the container called node is the one that trains.
  runtimePatches:
    - manager: ddpify.launch/volumes
      trainingRuntimeSpec:
        template:
          spec:
            replicatedJobs:
              - name: node
                template:
                  spec:
                    template:
                      spec:
                        containers:
                          - name: node
"""


def pytorchjob(launch: Launch) -> str:
    """The text of a PyTorchJob, for Kubeflow's training operator (API kubeflow.org/v1)."""
    text = head(launch, "Needs Kubeflow's training operator; without it: --on kubernetes.")
    text += _PYTORCHJOB.format(name=launch.job_name, per_node=launch.per_node)
    kinds = [("Master", 1), ("Worker", launch.nodes - 1)]
    if launch.elastic:
        counts = {"least": launch.least_nodes, "most": launch.nodes, "restarts": launch.restarts}
        text += _ELASTIC.format(**counts)
        kinds = [("Worker", launch.nodes)]  # all nodes are alike: none may be the one that stays
    text += indent(_run_policy(launch), "  ") + "  pytorchReplicaSpecs:\n"
    again = launch.elastic or launch.kubernetes.pod_restarts
    for kind, count in kinds:
        if count:
            restart = "OnFailure" if again else "Never"
            text += _REPLICAS.format(kind=kind, count=count, restart=restart)
            text += indent(pod(launch, "pytorch", _torchrun(launch), ""), " " * 10)
    return text


def _run_policy(launch: Launch) -> str:
    asked = launch.kubernetes
    lines = ["runPolicy:", "  cleanPodPolicy: None"]
    if asked.pod_restarts:
        lines.append(f"  backoffLimit: {asked.pod_restarts * launch.nodes}")
    if asked.deadline is not None:
        lines.append(f"  activeDeadlineSeconds: {asked.deadline}")
    if asked.ttl is not None:
        lines.append(f"  ttlSecondsAfterFinished: {asked.ttl}")
    return "\n".join(lines) + "\n"


def trainjob(launch: Launch) -> str:
    """The text of a TrainJob, for Kubeflow Trainer v2 (API trainer.kubeflow.org/v1alpha1)."""
    text = head(launch, "Needs Kubeflow Trainer v2; without it: --on kubernetes.")
    asked = launch.kubernetes
    text += _TRAINJOB.format(name=launch.job_name, runtime=asked.runtime)
    if asked.deadline is not None:
        text += f"  activeDeadlineSeconds: {asked.deadline}\n"
    inner = f"image: {image(launch)}\nnumNodes: {launch.nodes}\nnumProcPerNode: {launch.per_node}\n"
    inner += "command:\n" + "".join(f"  - {quoted(word)}\n" for word in _torchrun(launch))
    inner += environment(launch) + f"resourcesPerNode:\n{indent(resources(launch), '  ')}"
    text += "  trainer:\n" + indent(inner, " " * 4) + _PATCH
    return text + indent(mounts(launch), " " * 28) + indent(volumes(launch), " " * 24)


def _torchrun(launch: Launch) -> list[str]:
    restarts = [f"--max-restarts={launch.restarts}"] if launch.restarts else []
    words = [*restarts, *launch.logs(""), *map(literal, launch.words)]
    if not launch.before:
        return ["torchrun", *words]
    first = " && ".join([*map(literal, launch.before), 'exec torchrun "$@"'])
    return ["/bin/sh", "-c", first, "torchrun", *words]
