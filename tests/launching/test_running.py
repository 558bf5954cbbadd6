"""Launch files at work: a Slurm of local processes, and two network namespaces as two nodes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddpify.launching.command import launch_file
from ddpify.launching.launch import Launch
from tests.launching.training import Weights, assert_trained, environment, make_scripts

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
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Weights]:
    """The converted script, and what its original trains."""
    folder = tmp_path_factory.mktemp("made")
    expected = make_scripts(folder)
    return folder / "train_ddp.py", expected


@pytest.mark.torchrun
def test_slurm(made: tuple[Path, Weights], tmp_path: Path) -> None:
    script, expected = made
    shutil.copy(script, tmp_path)
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    launch = Launch("train_ddp.py", nodes=2, per_node=1, cpu=True, cpus_per_process=1)
    (tmp_path / "job.sh").write_text(launch_file(launch, "slurm"))
    variables = environment(
        SLURM_NNODES="2",
        SLURM_JOB_ID=str(os.getpid()),
        SLURM_JOB_NODELIST="localhost[1-2]",
        SLURM_CPUS_PER_TASK="1",
        GLOO_SOCKET_IFNAME="lo",
    )
    variables["PATH"] = f"{tmp_path}:{variables['PATH']}"
    command = ["bash", "job.sh"]
    subprocess.run(command, cwd=tmp_path, env=variables, check=True, timeout=MOMENTS)
    assert_trained(tmp_path, expected, ranks=2)


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
def test_two_nodes(nodes: tuple[str, str], made: tuple[Path, Weights], tmp_path: Path) -> None:
    script, expected = made
    shutil.copy(script, tmp_path)
    hosts = ("10.213.0.1", "10.213.0.2")
    launch = Launch("train_ddp.py", nodes=2, hosts=hosts, interface="veth0", cpu=True)
    text = launch_file(launch, "torchrun")
    lines = dict(
        zip(hosts, (line for line in text.splitlines() if " torchrun " in line), strict=True)
    )
    running = [
        subprocess.Popen(
            ["ip", "netns", "exec", node, "bash", "-c", lines[host]],
            cwd=tmp_path,
            env=environment(),
        )
        for host, node in zip(hosts, nodes, strict=True)
    ]
    try:
        assert [process.wait(MOMENTS) for process in running] == [0, 0]
    finally:
        for process in running:
            process.kill()
    assert_trained(tmp_path, expected, ranks=2)
