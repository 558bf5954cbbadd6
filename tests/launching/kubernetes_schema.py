"""Objects of Kubernetes and Kubeflow against what their own projects publish about them.

Kubernetes's own objects go to kubernetes-validate, which has the API's schemas; a TrainJob goes to
the models that Kubeflow Trainer publishes. For PyTorchJob, the fields of kubeflow.org/v1 in
Kubeflow's training operator are listed here, and its pods go to the former.
"""

from __future__ import annotations

from typing import Any

import kubernetes_validate

_REPLICAS = {"replicas": int, "restartPolicy": str, "template": dict}
_PYTORCHJOB: dict[str, Any] = {
    "nprocPerNode": str,
    "elasticPolicy": {
        "rdzvBackend": str,
        "minReplicas": int,
        "maxReplicas": int,
        "maxRestarts": int,
    },
    "runPolicy": {
        "cleanPodPolicy": str,
        "backoffLimit": int,
        "activeDeadlineSeconds": int,
        "ttlSecondsAfterFinished": int,
    },
    "pytorchReplicaSpecs": {"Master": _REPLICAS, "Worker": _REPLICAS},
}


def check(document: dict[str, Any]) -> None:
    """Assert that an object has known fields of the right types, and the required ones."""
    if document["kind"] == "TrainJob":
        _check_trainjob(document)
    elif document["kind"] == "PyTorchJob":
        _check_fields(document["spec"], _PYTORCHJOB, "spec")
        for replicas in document["spec"]["pytorchReplicaSpecs"].values():
            pod = {"restartPolicy": "Never", **replicas["template"]["spec"]}
            metadata = {"name": document["metadata"]["name"]}
            check({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod})
    else:
        kubernetes_validate.validate(document, "1.33", strict=True)


def _check_trainjob(document: dict[str, Any]) -> None:
    """The models take unknown fields and drop them: all that went in must come out."""
    # Hundreds of models: here, so that a worker without these tests does not import them.
    from kubeflow_trainer_api.models import TrainerV1alpha1TrainJob

    model = TrainerV1alpha1TrainJob.from_dict(document)
    assert model is not None
    _assert_within(document, model.to_dict(), "TrainJob")


def _assert_within(given: Any, known: Any, place: str) -> None:
    if isinstance(given, dict):
        for name, value in given.items():
            assert name in known, f"{place}: unknown field {name}"
            _assert_within(value, known[name], f"{place}.{name}")
    elif isinstance(given, list):
        assert len(given) == len(known), place
        for at, (one, other) in enumerate(zip(given, known, strict=True)):
            _assert_within(one, other, f"{place}[{at}]")


def _check_fields(value: Any, schema: Any, place: str) -> None:
    if isinstance(schema, type):
        assert type(value) is schema, f"{place}: {value!r} is no {schema.__name__}"
        return
    assert isinstance(value, dict), place
    for name, item in value.items():
        assert name in schema, f"{place}: unknown field {name}"
        _check_fields(item, schema[name], f"{place}.{name}")
