"""Kubernetes without an operator: an Indexed Job with a headless service."""

from __future__ import annotations

from textwrap import indent

from ddpify.launching.launch import Launch, continued
from ddpify.launching.pods import head, literal, pod

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
  # One pod a node, numbered from 0 (JOB_COMPLETION_INDEX).
  completionMode: Indexed
  completions: {nodes}
  parallelism: {nodes}
{ends}  template:
    spec:
      subdomain: {name}
      restartPolicy: Never
"""
_NO_RESTART = "# The first pod that fails ends the job.\nbackoffLimit: 0\n"
_RESTARTS = """\
# A pod that ends takes the others' group with it, and all are replaced: {restarts} time(s) each.
backoffLimit: {limit}
podFailurePolicy:
  rules:
    # A preemption, or a drained node, is no failure.
    - action: Ignore
      onPodConditions:
        - type: DisruptionTarget
          status: "True"
"""


def indexed_job(launch: Launch) -> str:
    """The text of a headless service and an Indexed Job, which need no operator."""
    name = launch.job_name
    service = _SERVICE.format(name=name, port=launch.port)
    ends = indent(_ends(launch), "  ")
    job = _JOB.format(name=name, nodes=launch.nodes, ends=ends)
    args = "args:\n  - |\n" + indent(_start(launch), " " * 4)
    spec = pod(launch, "train", ["/bin/sh", "-c"], args)
    kubeflow = "With Kubeflow: ddpify launch --on trainjob (Trainer v2) or --on kubeflow."
    return head(launch, kubeflow) + service + "---\n" + job + indent(spec, " " * 6)


def _ends(launch: Launch) -> str:
    asked = launch.kubernetes
    text = _NO_RESTART
    if asked.pod_restarts:
        limit = asked.pod_restarts * launch.nodes
        text = _RESTARTS.format(restarts=asked.pod_restarts, limit=limit)
    if asked.deadline is not None:
        text += f"activeDeadlineSeconds: {asked.deadline}\n"
    if asked.ttl is not None:
        text += f"ttlSecondsAfterFinished: {asked.ttl}\n"
    return text


def _start(launch: Launch) -> str:
    """The pod's shell script: pods are called NAME-0, NAME-1, ..., in the domain NAME."""
    name = launch.job_name
    own = f"{name}-$JOB_COMPLETION_INDEX.{name}"
    parts = [
        "exec torchrun",
        *launch.rendezvous(name, f"{name}-0.{name}:{launch.port}"),
        *launch.own_place("$is_host", own),
        *launch.options(),
        literal(" ".join(launch.command)),
    ]
    test = 'if [ "$JOB_COMPLETION_INDEX" = 0 ]; then is_host=1; else is_host=0; fi'
    before = [*launch.setup, *launch.before]
    setup = "".join(f"{literal(line)}\n" for line in ("set -e", *before) if before)
    return f"{setup}{test}\n{continued(parts)}\n"
