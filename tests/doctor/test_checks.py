"""The checks of one process, on environments with one thing wrong."""

from __future__ import annotations

import socket

import pytest

from ddpify.doctor.findings import Finding, Level, error, merged, note
from ddpify.doctor.network import check_network, interfaces
from ddpify.doctor.variables import check_variables

INTERFACES = {"lo": "127.0.0.1", "eth0": "10.0.0.1", "ib0": "10.1.0.1"}
LAUNCHED = {
    "RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "29500",
}
WRONG: dict[str, tuple[dict[str, str], Level, str, str]] = {
    "half a launch": (
        {"RANK": "", "MASTER_ADDR": ""},
        Level.ERROR,
        "RANK, MASTER_ADDR",
        "torchrun",
    ),
    "no number": ({"LOCAL_RANK": "one"}, Level.ERROR, "LOCAL_RANK='one'", "torchrun"),
    "rank beyond": ({"RANK": "4"}, Level.ERROR, "RANK=4 of WORLD_SIZE=4", "torchrun"),
    "old name": (
        {"NCCL_BLOCKING_WAIT": "1"},
        Level.WARNING,
        "NCCL_BLOCKING_WAIT is not read",
        "TORCH_NCCL_BLOCKING_WAIT",
    ),
    "unread": ({"NCCL_TIMEOUT": "9"}, Level.WARNING, "nothing reads NCCL_TIMEOUT", "timeout"),
    "slow": ({"CUDA_LAUNCH_BLOCKING": "1"}, Level.WARNING, "CUDA_LAUNCH_BLOCKING=1", "unset"),
    "debugging": (
        {"TORCH_DISTRIBUTED_DEBUG": "detail"},
        Level.WARNING,
        "TORCH_DISTRIBUTED_DEBUG=DETAIL",
        "unset",
    ),
    "no interface": (
        {"GLOO_SOCKET_IFNAME": "enp3s0"},
        Level.ERROR,
        "GLOO_SOCKET_IFNAME=enp3s0",
        "lo, eth0, ib0",
    ),
    "too few devices": (
        {"CUDA_VISIBLE_DEVICES": "3"},
        Level.ERROR,
        "CUDA_VISIBLE_DEVICES=3 for 2 ranks",
        "--nproc-per-node",
    ),
    "too many threads": (
        {"OMP_NUM_THREADS": "9999"},
        Level.WARNING,
        "OMP_NUM_THREADS=9999",
        "OMP_NUM_THREADS=",
    ),
}


def serious(findings: list[Finding]) -> list[Finding]:
    return [one for one in findings if one.level is not Level.NOTE]


@pytest.mark.parametrize(("change", "level", "message", "remedy"), WRONG.values(), ids=WRONG)
def test_variables(change: dict[str, str], level: Level, message: str, remedy: str) -> None:
    (found,) = serious(list(check_variables({**LAUNCHED, **change}, INTERFACES)))
    assert found.level is level and message in found.message and remedy in found.remedy


@pytest.mark.parametrize(
    "env", [{}, LAUNCHED, {**LAUNCHED, "NCCL_SOCKET_IFNAME": "^lo"}, {"NCCL_SOCKET_IFNAME": "ib"}]
)
def test_nothing_wrong_with_variables(env: dict[str, str]) -> None:
    assert serious(list(check_variables(env, INTERFACES))) == []


def test_a_master_that_does_not_answer() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # not listening: connections are refused
        port = str(held.getsockname()[1])
        env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        messages = [one.message for one in serious(list(check_network(env, {})))]
        assert any(f"127.0.0.1:{port} cannot be reached" in text for text in messages)
        held.listen()
        messages = [one.message for one in check_network(env, {})]
        assert any(f"127.0.0.1:{port} is there" in text for text in messages)


def test_several_interfaces_between_nodes() -> None:
    env = {"GROUP_WORLD_SIZE": "2"}
    messages = [one.message for one in serious(list(check_network(env, INTERFACES)))]
    assert "several interfaces: eth0, ib0" in messages
    env["NCCL_SOCKET_IFNAME"] = "ib0"
    messages = [one.message for one in serious(list(check_network(env, INTERFACES)))]
    assert "several interfaces: eth0, ib0" not in messages


def test_interfaces_of_this_machine() -> None:
    assert interfaces().get("lo", "127.0.0.1") == "127.0.0.1"


def test_findings_of_ranks_are_one_list() -> None:
    everywhere, somewhere = note("versions", "torch"), error("devices", "no GPU", "buy one")
    found = merged([[everywhere], [everywhere, somewhere], [everywhere, somewhere]])
    assert [(one.message, one.ranks) for one in found] == [("torch", ()), ("no GPU", (1, 2))]
    assert [Finding.from_json(one.to_json()) for one in found] == found
