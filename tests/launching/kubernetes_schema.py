"""The part of Kubernetes's API that launch files use, from its reference documentation.

https://kubernetes.io/docs/reference/generated/kubernetes-api/ and, for PyTorchJob, the fields of
kubeflow.org/v1 in Kubeflow's training operator. A class stands for a scalar, a one-element list for
a list, ``ANY`` as key for any name; fields in ``REQUIRED`` must be there.
"""

from __future__ import annotations

from typing import Any

ANY = "*"
REQUIRED = {"apiVersion", "kind", "metadata", "name", "containers", "template", "mountPath", "port"}
_META = {"name": str, "labels": {ANY: str}}
_CONTAINER = {
    "name": str,
    "image": str,
    "command": [str],
    "args": [str],
    "env": [{"name": str, "value": str}],
    "resources": {"requests": {ANY: int}, "limits": {ANY: int}},
    "volumeMounts": [{"name": str, "mountPath": str}],
}
_POD = {
    "subdomain": str,
    "restartPolicy": str,
    "containers": [_CONTAINER],
    "volumes": [{"name": str, "emptyDir": {"medium": str}}],
}
_TEMPLATE = {"spec": _POD}
_REPLICAS = {"replicas": int, "restartPolicy": str, "template": _TEMPLATE}
SCHEMAS: dict[tuple[str, str], dict[str, Any]] = {
    ("v1", "Service"): {
        "clusterIP": str,
        "publishNotReadyAddresses": bool,
        "selector": {ANY: str},
        "ports": [{"name": str, "port": int}],
    },
    ("batch/v1", "Job"): {
        "completionMode": str,
        "completions": int,
        "parallelism": int,
        "backoffLimit": int,
        "template": _TEMPLATE,
    },
    ("kubeflow.org/v1", "PyTorchJob"): {
        "nprocPerNode": str,
        "runPolicy": {"cleanPodPolicy": str},
        "pytorchReplicaSpecs": {"Master": _REPLICAS, "Worker": _REPLICAS},
    },
}


def check(document: dict[str, Any]) -> None:
    """Assert that an object has known fields of the right types, and the required ones."""
    spec = SCHEMAS[document["apiVersion"], document["kind"]]
    schema = {"apiVersion": str, "kind": str, "metadata": _META, "spec": spec}
    _check(document, schema, document["kind"])


def _check(value: Any, schema: Any, place: str) -> None:
    if isinstance(schema, type):
        assert type(value) is schema, f"{place}: {value!r} is no {schema.__name__}"
    elif isinstance(schema, list):
        assert isinstance(value, list), place
        for at, item in enumerate(value):
            _check(item, schema[0], f"{place}[{at}]")
    else:
        assert isinstance(value, dict), place
        assert REQUIRED & set(schema) - {"labels"} <= set(value), place
        for name, item in value.items():
            assert name in schema or ANY in schema, f"{place}: unknown field {name}"
            _check(item, schema.get(name, schema.get(ANY)), f"{place}.{name}")
