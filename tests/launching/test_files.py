"""What `ddpify launch` writes: shellcheck, the API's fields, and the messages for wrong use."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Ddpify
from tests.launching import kubernetes_schema

yaml = pytest.importorskip("yaml")  # LibCST brings it along

AWKWARD = ["--name", 'it\'s $(HOME) `x` "y"', "--note", "é\n  two lines", "a&b;c"]
SHELL = {
    "one node": ("--on", "torchrun", "--gpus-per-node", "8"),
    "several nodes": ("--on", "torchrun", "--nodes", "3", "--hosts", "a,b,10.0.0.3"),
    "slurm": ("--on", "slurm", "--nodes", "4", "--gpus-per-node", "8", "--time", "1:00:00"),
    "slurm on the CPU": ("--on", "slurm", "--cpu", "--interface", "eth0", "--max-restarts", "3"),
}


@pytest.mark.parametrize("options", SHELL.values(), ids=SHELL)
def test_shell_scripts_pass_shellcheck(
    options: tuple[str, ...], ddpify: Ddpify, tmp_path: Path
) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    path = tmp_path / "launch.sh"
    assert ddpify("launch", "train_ddp.py", *options, "-o", path, "--", *AWKWARD).code == 0
    done = subprocess.run(
        ["shellcheck", "-s", "bash", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def arguments(script: str, folder: Path, **variables: str) -> list[str]:
    """What a shell script gives to torchrun."""
    fake = folder / "torchrun"
    fake.write_text("#!/bin/sh\nprintf '%s\\0' \"$@\"\n")
    fake.chmod(0o755)
    variables["PATH"] = f"{folder}:/usr/bin:/bin"
    done = subprocess.run(
        ["/bin/sh", "-c", script], env=variables, capture_output=True, text=True, check=True
    )
    return done.stdout.split("\0")[:-1]


@pytest.mark.parametrize("nodes", ["1", "2"])
def test_arguments_reach_the_script_as_they_are(nodes: str, ddpify: Ddpify, tmp_path: Path) -> None:
    text = ddpify("launch", "train_ddp.py", "--nodes", nodes, "--", *AWKWARD).stdout
    given = arguments(text, tmp_path)
    assert given.count("train_ddp.py") == int(nodes)
    assert given[-len(AWKWARD) - 1 :] == ["train_ddp.py", *AWKWARD]


def objects(ddpify: Ddpify, *options: str) -> list[dict[str, Any]]:
    done = ddpify("launch", "My Train.py", *options, "--", *AWKWARD)
    assert done.code == 0, done.stderr
    found = list(yaml.safe_load_all(done.stdout))
    for document in found:
        kubernetes_schema.check(document)
    return found


def test_indexed_job(ddpify: Ddpify) -> None:
    options = ("--nodes", "4", "--gpus-per-node", "8", "--image", "registry/image:1")
    service, job = objects(ddpify, "--on", "kubernetes", *options)
    name = job["metadata"]["name"]
    assert name == service["metadata"]["name"] == "my-train"
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"job-name": name}
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == 4
    pod = job["spec"]["template"]["spec"]
    assert pod["subdomain"] == name
    (container,) = pod["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 8}


def test_the_first_pod_is_the_rendezvous(ddpify: Ddpify, tmp_path: Path) -> None:
    """The pod's own shell script, with a torchrun that prints its arguments."""
    _, job = objects(ddpify, "--on", "kubernetes", "--nodes", "2")
    script = job["spec"]["template"]["spec"]["containers"][0]["args"][0]
    for index, is_host in (("0", "1"), ("1", "0")):
        # Kubernetes turns $$(NAME) into $(NAME).
        given = arguments(script.replace("$$(", "$("), tmp_path, JOB_COMPLETION_INDEX=index)
        assert "--rdzv-endpoint=my-train-0.my-train:29500" in given
        assert f"--local-addr=my-train-{index}.my-train" in given
        assert any(word.startswith(f"--rdzv-conf=is_host={is_host},") for word in given)
        assert given[-len(AWKWARD) - 1 :] == ["My Train.py", *AWKWARD]


@pytest.mark.parametrize(("nodes", "kinds"), [("1", ["Master"]), ("3", ["Master", "Worker"])])
def test_pytorchjob(nodes: str, kinds: list[str], ddpify: Ddpify) -> None:
    (job,) = objects(ddpify, "--on", "kubeflow", "--nodes", nodes, "--gpus-per-node", "2")
    replicas = job["spec"]["pytorchReplicaSpecs"]
    assert list(replicas) == kinds
    assert sum(one["replicas"] for one in replicas.values()) == int(nodes)
    assert job["spec"]["nprocPerNode"] == "2"
    for one in replicas.values():
        (container,) = one["template"]["spec"]["containers"]
        assert container["name"] == "pytorch"
        command = [part.replace("$$(", "$(") for part in container["command"]]
        assert command == ["torchrun", "My Train.py", *AWKWARD]


def test_an_output_file_is_replaced_only_where_asked(ddpify: Ddpify, tmp_path: Path) -> None:
    path = tmp_path / "job.sh"
    path.write_text("mine")
    done = ddpify("launch", "train_ddp.py", "--on", "slurm", "-o", path)
    assert done.code == 2 and "--overwrite" in done.stderr and path.read_text() == "mine"
    assert ddpify("launch", "train_ddp.py", "--on", "slurm", "-o", path, "--overwrite").code == 0
    assert "#SBATCH --ntasks-per-node=1\n" in path.read_text()


@pytest.mark.parametrize(
    ("options", "message", "remedy"),
    [
        (("--on", "pbs"), "unknown system 'pbs'", "kubernetes or kubeflow"),
        (("--nodes", "3", "--hosts", "a,b"), "2 host(s) for 3 node(s)", "--hosts"),
    ],
)
def test_wrong_usage(options: tuple[str, ...], message: str, remedy: str, ddpify: Ddpify) -> None:
    done = ddpify("launch", "train_ddp.py", *options)
    assert (done.code, done.stdout) == (2, "")
    assert message in done.stderr and remedy in done.stderr


def test_a_script_for_one_process_is_not_launched_on_many(ddpify: Ddpify, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\nloss = step()\nloss.backward()\n")
    done = ddpify("launch", script, "--nodes", "2")
    assert done.code == 1
    assert f"{script}:3: this script trains in one process" in done.stderr
    assert f"ddpify convert {script}" in done.stderr
