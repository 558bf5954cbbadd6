"""Launch files at work: a Slurm of local processes, and two network namespaces as two nodes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ddpify.launching.command import launch_file
from ddpify.launching.launch import Launch
from ddpify.launching.options import SlurmOptions
from tests.launching.training import Weights, assert_trained, environment, make_scripts
from tests.launching.warm_commands import warm_commands
from tests.warm import Server, warm_processes

SRUN = """\
#!/bin/bash
# Its options, then a command: one task a node, here all on this machine.
while [[ $1 == --* ]]; do shift; done
pids=()
for ((node = 0; node < SLURM_NNODES; node++)); do
  SLURM_NODEID=$node SLURM_PROCID=$node SLURMD_NODENAME=localhost "$@" &
  pids+=($!)
done
status=0
for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
exit $status
"""
SCONTROL = """\
#!/bin/bash
[[ "$1 $2" == "show hostnames" && $3 == "localhost[1-2]" ]] || exit 1
printf 'localhost\\nlocalhost\\n'
"""
MOMENTS = 300.0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, server: Server | None) -> tuple[Path, Weights]:
    """The converted script, and what its original trains."""
    folder = tmp_path_factory.mktemp("made")
    with warm_processes(server):
        expected = make_scripts(folder)
    return folder / "train_ddp.py", expected


@pytest.fixture(scope="module")
def commands(server: Server | None) -> Iterator[Path]:
    """A folder with the torchrun and the python that scripts of a shell find first."""
    with warm_commands(server) as folder:
        yield folder


@pytest.mark.torchrun
def test_slurm(made: tuple[Path, Weights], commands: Path, tmp_path: Path) -> None:
    script, expected = made
    shutil.copy(script, tmp_path)
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    asked = Launch("train_ddp.py", nodes=2, per_node=1, cpu=True, cpus_per_process=1)
    launch = replace(asked, log_dir="logs", nccl_debug="nccl")
    (tmp_path / "job.sh").write_text(launch_file(launch, "slurm"))
    variables = environment(
        SLURM_NNODES="2",
        SLURM_JOB_ID=str(os.getpid()),
        SLURM_JOB_NODELIST="localhost[1-2]",
        SLURM_CPUS_PER_TASK="1",
        GLOO_SOCKET_IFNAME="lo",
    )
    variables["PATH"] = f"{tmp_path}:{commands}:{variables['PATH']}"
    command = ["bash", "job.sh"]
    subprocess.run(command, cwd=tmp_path, env=variables, check=True, timeout=MOMENTS)
    assert_trained(tmp_path, expected, ranks=2)
    assert len(list(tmp_path.glob("logs/localhost/*/attempt_0/0/stdout.log"))) == 2
    assert (tmp_path / "nccl").is_dir()


@pytest.mark.parametrize(("left", "again"), [(100, True), (5000, False)])
def test_a_job_that_was_signalled_goes_on_in_a_new_one(
    left: int, again: bool, tmp_path: Path
) -> None:
    """Training fails: near the limit it was the signal, and long before it is an error."""
    asked = tmp_path / "asked"
    scontrol = SCONTROL.replace(
        "[[", f'echo "$1 $2" >> {asked}; [[ $1 == requeue ]] && exit; [[', 1
    )
    for name, text in (("srun", "#!/bin/sh\nexit 7\n"), ("scontrol", scontrol)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    options = SlurmOptions(time="1:00:00", signal=120, requeue=True)
    launch = Launch("train_ddp.py", nodes=2, cpu=True, slurm=options)
    (tmp_path / "job.sh").write_text(launch_file(launch, "slurm"))
    variables = environment(
        SLURM_JOB_ID="77",
        SLURM_JOB_NODELIST="localhost[1-2]",
        SLURM_CPUS_PER_TASK="1",
        SLURM_JOB_END_TIME=str(int(time.time()) + left),
    )
    variables["PATH"] = f"{tmp_path}:{variables['PATH']}"
    done = subprocess.run(["bash", "job.sh"], cwd=tmp_path, env=variables, check=False)
    assert done.returncode == 7
    assert ("requeue 77" in asked.read_text()) == again


@pytest.fixture
def nodes() -> Iterator[tuple[str, str]]:
    """Two network namespaces, 10.213.0.1 and 10.213.0.2 on veth0 of each."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces need root and iproute2")
    first, second = (f"ddpify-{os.getpid()}-{number}" for number in (1, 2))
    commands = [f"netns add {first}", f"netns add {second}"]
    commands += [f"link add veth0 netns {first} type veth peer name veth0 netns {second}"]
    for number, node in enumerate((first, second), 1):
        commands.append(f"-n {node} address add 10.213.0.{number}/24 dev veth0")
        commands += [f"-n {node} link set {device} up" for device in ("veth0", "lo")]
    try:
        for words in commands:
            done = subprocess.run(["ip", *words.split()], capture_output=True, check=False)
            if done.returncode:
                pytest.skip(f"no network namespaces here: {done.stderr.decode().strip()}")
        yield first, second
    finally:
        for node in (first, second):
            subprocess.run(["ip", "netns", "delete", node], capture_output=True, check=False)


@pytest.mark.torchrun
def test_two_nodes(
    nodes: tuple[str, str], made: tuple[Path, Weights], commands: Path, tmp_path: Path
) -> None:
    script, expected = made
    shutil.copy(script, tmp_path)
    variables = environment()
    variables["PATH"] = f"{commands}:{variables['PATH']}"
    hosts = ("10.213.0.1", "10.213.0.2")
    launch = Launch(
        "train_ddp.py", nodes=2, hosts=hosts, interface="veth0", cpu=True, max_restarts=1
    )
    (tmp_path / "launch.sh").write_text(launch_file(launch, "torchrun"))
    running = [
        subprocess.Popen(
            ["ip", "netns", "exec", node, "bash", "launch.sh", str(number)],
            cwd=tmp_path,
            env=variables,
        )
        for number, node in enumerate(nodes)
    ]
    try:
        assert [process.wait(MOMENTS) for process in running] == [0, 0]
    finally:
        for process in running:
            process.kill()
    assert_trained(tmp_path, expected, ranks=2)


SSH = """\
#!/bin/bash
# ssh HOST COMMAND, where a host is the network namespace that has its address.
command=${{2//{python}/{warm}}}
case $1 in
  10.213.0.1) exec ip netns exec {first} bash -c "$command" ;;
  10.213.0.2) exec ip netns exec {second} bash -c "$command" ;;
esac
exit 255
"""


def ssh(folder: Path, nodes: tuple[str, str], commands: Path) -> str:
    path = folder / "fake-ssh"
    interpreters = {"python": sys.executable.replace("/", "\\/"), "warm": commands / "python"}
    path.write_text(SSH.format(first=nodes[0], second=nodes[1], **interpreters))
    path.chmod(0o755)
    return str(path)


def ddpify_run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ddpify", "run", *words]
    return subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=MOMENTS
    )


@pytest.mark.torchrun
def test_run_over_ssh(
    nodes: tuple[str, str], made: tuple[Path, Weights], commands: Path, tmp_path: Path
) -> None:
    script, expected = made
    shutil.copy(script, tmp_path)
    hosts = ("--hosts", "10.213.0.1,10.213.0.2", "--interface", "veth0", "--nproc", "1")
    log = ("--log-dir", "log dir", "--ssh", ssh(tmp_path, nodes, commands))
    done = ddpify_run(tmp_path, "train_ddp.py", *hosts, *log)
    assert done.returncode == 0, done.stderr
    assert_trained(tmp_path, expected, ranks=2)
    written = sorted((tmp_path / "log dir").glob("10.213.0.*/*/attempt_0/0/stdout.log"))
    assert len(written) == 2
    assert "[10.213.0.1:0]:" in done.stdout


@pytest.mark.torchrun
def test_run_on_each_node_by_itself(
    nodes: tuple[str, str], made: tuple[Path, Weights], tmp_path: Path
) -> None:
    script, expected = made
    shutil.copy(script, tmp_path)
    words = ["-m", "ddpify", "run", "train_ddp.py", "--nproc", "1", "--interface", "veth0"]
    words += ["--nodes", "2", "--main-address", "10.213.0.1", "--node-rank"]
    running = [
        subprocess.Popen(
            ["ip", "netns", "exec", node, sys.executable, *words, str(rank)],
            cwd=tmp_path,
            env=environment(),
        )
        for rank, node in enumerate(nodes)
    ]
    try:
        assert [process.wait(MOMENTS) for process in running] == [0, 0]
    finally:
        for process in running:
            process.kill()
    assert_trained(tmp_path, expected, ranks=2)


@pytest.mark.torchrun
def test_run_ends_all_hosts_when_one_fails(
    nodes: tuple[str, str], commands: Path, tmp_path: Path
) -> None:
    text = "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(3)\ntime.sleep(200)\n"
    (tmp_path / "train_ddp.py").write_text(text)
    hosts = (
        "--hosts",
        "10.213.0.1,10.213.0.2",
        "--nproc",
        "1",
        "--ssh",
        ssh(tmp_path, nodes, commands),
    )
    begin = time.monotonic()
    done = ddpify_run(tmp_path, "train_ddp.py", *hosts)
    assert done.returncode != 0
    assert time.monotonic() - begin < 120


@pytest.mark.torchrun
def test_run_on_this_machine(made: tuple[Path, Weights], tmp_path: Path) -> None:
    script, expected = made
    shutil.copy(script, tmp_path)
    done = ddpify_run(tmp_path, "train_ddp.py", "--nproc_per_node", "2", "--log-dir", "logs")
    assert done.returncode == 0, done.stderr
    assert_trained(tmp_path, expected, ranks=2)
    files = sorted(path.parts[-2] for path in tmp_path.glob("logs/*/attempt_0/*/stdout.log"))
    assert files == ["0", "1"]


@pytest.mark.torchrun
def test_run_starts_again_after_a_failure(tmp_path: Path) -> None:
    text = (
        "import os\nprint(os.environ['A'], os.environ['TORCHELASTIC_RESTART_COUNT'], flush=True)\n"
    )
    (tmp_path / "late.py").write_text(
        text + "if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0': raise SystemExit(1)\n"
    )
    words = ("-m", "late", "--nproc", "1", "--max-restarts", "1", "--env", "A=it's", "--cpu")
    done = ddpify_run(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "it's 0\nit's 1\n"
