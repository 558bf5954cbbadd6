"""Broken environments, each with the sentence that the doctor says about it; real processes."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from ddpify.doctor.findings import Finding, Level
from ddpify.ports import free_port
from tests.conftest import FIXTURES
from tests.launching.warm_commands import warm_commands
from tests.warm import Server

pytestmark = pytest.mark.torchrun
ROOT = str(FIXTURES.parent)
AT_ONCE = 25.0
"""Seconds: far below PyTorch's own two minutes, and above the start of a busy machine."""


def variables(rank: int, size: int, port: int, **more: str) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        **more,
    }


Started = tuple[int, list[Finding], str]


def start(env: dict[str, str], prefix: Sequence[str] = ()) -> subprocess.Popen[str]:
    command = [*prefix, sys.executable, "-m", "ddpify", "doctor", "--json", "--wait", "4"]
    clean = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.Popen(
        [*command, "--nproc", "1"],
        env={**clean, "PYTHONPATH": ROOT, "GLOO_SOCKET_IFNAME": "lo", **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> Started:
    out, errors = process.communicate(timeout=120)
    found = json.loads(out)["findings"] if out else []
    return process.returncode, [Finding.from_json(one) for one in found], errors


def doctor(env: dict[str, str], prefix: Sequence[str] = ()) -> Started:
    return finish(start(env, prefix))


def serious(done: Started) -> list[str]:
    """What was found, on a process that says no more than that."""
    code, findings, errors = done
    messages = [one.message for one in findings if one.level is not Level.NOTE]
    assert code == bool(messages), errors
    assert errors == ""
    return messages


def test_rank_0_that_hosts_the_store_is_well() -> None:
    """As srun and mpirun start ranks: without torchrun, whose agent would host the store."""
    port = free_port()
    processes = [start(variables(rank, 2, port)) for rank in (1, 0)]
    second, first = [finish(process) for process in processes]
    assert serious(first) == []
    assert (second[0], second[1], second[2]) == (0, [], "")
    assert any(one.message.startswith("2 ranks on 1 node(s)") for one in first[1])


def test_no_such_host() -> None:
    env = variables(1, 2, 29500, MASTER_ADDR="no-such-node.invalid")
    assert serious(doctor(env)) == [
        "MASTER_ADDR=no-such-node.invalid: this machine knows no such host"
    ]


def test_nothing_listens_where_torchruns_store_should_be() -> None:
    port = free_port()
    begin = time.monotonic()
    done = doctor(variables(1, 2, port, TORCHELASTIC_USE_AGENT_STORE="True"))
    assert serious(done) == [f"nothing listens at MASTER_ADDR:MASTER_PORT 127.0.0.1:{port}"]
    assert time.monotonic() - begin < AT_ONCE


def test_rank_0_never_starts() -> None:
    port = free_port()
    assert serious(doctor(variables(1, 2, port))) == [
        f"nothing listens at MASTER_ADDR:MASTER_PORT 127.0.0.1:{port} after 4 s"
    ]


def test_a_rank_that_does_not_come_is_named() -> None:
    assert serious(doctor(variables(0, 3, free_port()))) == [
        "2 of 3 ranks have not come within 4 s: rank 1, 2"
    ]


def test_two_processes_with_one_rank() -> None:
    port = free_port()
    processes = [start(variables(rank, 3, port)) for rank in (0, 1, 1)]
    first, *others = [serious(finish(process)) for process in processes]
    assert first == ["1 of 3 ranks have not come within 4 s: rank 2"]
    twice = f"two processes have RANK=1; the second is on {socket.gethostname()}"
    assert [twice] in others


def test_a_port_in_use() -> None:
    with socket.socket() as held:
        held.bind(("", 0))
        held.listen()
        port = held.getsockname()[1]
        assert serious(doctor(variables(0, 2, port))) == [
            f"rank 0 cannot host the store: port {port} is in use by another program"
        ]


def test_another_program_at_the_port() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        threading.Thread(target=_answer, args=(held,), daemon=True).start()
        port = held.getsockname()[1]
        assert serious(doctor(variables(1, 2, port))) == [
            "another program than PyTorch answers at MASTER_ADDR:MASTER_PORT"
        ]


def _answer(listener: socket.socket) -> None:
    """A web server, to a client that is none."""
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        with client:
            client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def test_half_of_a_launch() -> None:
    env = {"WORLD_SIZE": "2", "RANK": "1"}
    assert serious(doctor(env)) == [
        "LOCAL_RANK, MASTER_ADDR, MASTER_PORT not set, but RANK, WORLD_SIZE is"
    ]


def test_an_interface_that_is_not_there() -> None:
    assert serious(doctor({"GLOO_SOCKET_IFNAME": "ib7"})) == [
        "GLOO_SOCKET_IFNAME=ib7: this machine has no such interface"
    ]


def test_too_few_open_files() -> None:
    prefix = ("/bin/sh", "-c", 'ulimit -n 300; exec "$@"', "sh")
    assert serious(doctor({}, prefix)) == ["at most 300 open files: sockets and workers need more"]


def test_torch_is_missing(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')\n")
    env = {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    assert serious(doctor(env)) == ["torch is not installed in this environment"]


Unshared = Callable[[str], Sequence[str]]


@pytest.fixture(scope="module")
def commands(server: Server | None) -> Iterator[Path]:
    """A folder with the python that a shell finds."""
    with warm_commands(server) as folder:
        yield folder


@pytest.fixture
def unshared(commands: Path) -> Unshared:
    """The words before a command that runs it with mounts, name and network of its own."""
    words = ("unshare", "--mount", "--uts", "--net")
    if shutil.which("unshare") is None or subprocess.run([*words, "true"]).returncode:
        pytest.skip("namespaces need root and util-linux")
    run = f'shift; exec {commands / "python"} "$@"'  # in place of the interpreter that is named
    return lambda setup: (*words, "/bin/sh", "-c", f"{setup}; {run}", "sh")


UP = "ip link set lo up"


def test_no_route_to_the_master(unshared: Unshared) -> None:
    begin = time.monotonic()
    done = doctor(variables(1, 2, 29500, MASTER_ADDR="10.9.8.7"), unshared(UP))
    assert (
        "there is no route from this machine to MASTER_ADDR:MASTER_PORT 10.9.8.7:29500"
        in serious(done)
    )
    assert time.monotonic() - begin < AT_ONCE


@pytest.fixture
def firewall(unshared: Unshared) -> Sequence[str]:
    """A network in which nobody answers: packets to 10.213.7.9 are lost."""
    return unshared(
        f"{UP} && ip link add d0 type veth peer name d1 && ip link set d1 up && "
        "ip address add 10.213.7.1/24 dev d0 && ip link set d0 up && ip neigh add 10.213.7.9 "
        "lladdr 02:00:00:00:00:09 dev d0"
    )


def test_a_firewall_that_drops_packets(firewall: Sequence[str]) -> None:
    begin = time.monotonic()
    done = doctor(variables(1, 2, 29500, MASTER_ADDR="10.213.7.9"), firewall)
    expected = "MASTER_ADDR:MASTER_PORT 10.213.7.9:29500 does not answer within 5 s"
    assert expected in serious(done)
    assert time.monotonic() - begin < AT_ONCE


def test_an_address_that_is_another_machine(firewall: Sequence[str]) -> None:
    done = doctor(variables(0, 2, 29500, MASTER_ADDR="10.213.7.9"), firewall)
    assert (
        "rank 0 hosts the store, but MASTER_ADDR=10.213.7.9 does not lead to its machine"
        in serious(done)
    )


def test_little_shared_memory(unshared: Unshared) -> None:
    done = doctor({}, unshared(f"{UP} && mount -t tmpfs -o size=64m none /dev/shm"))
    assert "/dev/shm has 64 MiB: loader workers and NCCL need more" in serious(done)


def test_a_name_without_an_address(unshared: Unshared) -> None:
    done = doctor({}, unshared(f"{UP} && hostname nobody-knows.invalid"))
    assert serious(done) == ["this machine's name, nobody-knows.invalid, has no address"]
