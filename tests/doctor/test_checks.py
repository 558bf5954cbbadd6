"""The checks of one process, on environments with one thing wrong."""

from __future__ import annotations

import itertools
import socket
from pathlib import Path

import pytest

from ddpify.doctor import links, shared_folder
from ddpify.doctor.findings import Finding, Level, error, merged, note
from ddpify.doctor.infiniband import check_infiniband
from ddpify.doctor.mounts import file_system
from ddpify.doctor.network import check_network, interfaces
from ddpify.doctor.nvidia import check_driver, driver
from ddpify.doctor.rendezvous import check_rendezvous
from ddpify.doctor.variables import check_variables
from ddpify.ports import free_port
from tests.conftest import Ddpify

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
    "no port": ({"MASTER_PORT": "70000"}, Level.ERROR, "MASTER_PORT=70000 is no port", "65535"),
    "srun alone": (
        {**dict.fromkeys(LAUNCHED, ""), "SLURM_STEP_NUM_TASKS": "4"},
        Level.ERROR,
        "srun has started 4 tasks",
        "one torchrun a node",
    ),
    "a network of one's own": (
        {"GLOO_SOCKET_IFNAME": "lo", "GROUP_WORLD_SIZE": "2"},
        Level.ERROR,
        "GLOO_SOCKET_IFNAME=lo is each node itself",
        "eth0, ib0",
    ),
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
    "threads that are no number": (
        {"OMP_NUM_THREADS": "two"},
        Level.WARNING,
        "OMP_NUM_THREADS=two is not a number",
        "set a number",
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


def test_several_interfaces_between_nodes() -> None:
    env = {"GROUP_WORLD_SIZE": "2"}
    messages = [one.message for one in serious(list(check_network(env, INTERFACES, 0.0)))]
    assert "several interfaces: eth0, ib0" in messages
    env["NCCL_SOCKET_IFNAME"] = "ib0"
    messages = [one.message for one in serious(list(check_network(env, INTERFACES, 0.0)))]
    assert "several interfaces: eth0, ib0" not in messages


@pytest.mark.parametrize("host", ["localhost", "127.0.1.1", "::1"])
def test_several_nodes_at_one_nodes_own_address(host: str) -> None:
    (found,) = check_rendezvous({**LAUNCHED, "MASTER_ADDR": host}, wait=60.0)
    assert found.message == f"MASTER_ADDR={host} is each node itself: several cannot meet there"


def test_the_store_listens_as_pytorchs_does() -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    for host in ("::1", "127.0.0.1"):
        env = {**LAUNCHED, "RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": str(free_port())}
        (found,) = check_rendezvous({**env, "MASTER_ADDR": host}, wait=0.0)
        assert found.level is Level.NOTE, found.message


def test_interfaces_of_this_machine() -> None:
    assert interfaces().get("lo", "127.0.0.1") == "127.0.0.1"


def test_findings_of_ranks_are_one_list() -> None:
    everywhere, somewhere = note("versions", "torch"), error("devices", "no GPU", "buy one")
    found = merged([[everywhere], [everywhere, somewhere], [everywhere, somewhere]])
    assert [(one.message, one.ranks) for one in found] == [("torch", ()), ("no GPU", (1, 2))]
    assert [Finding.from_json(one.to_json()) for one in found] == found


def link(folder: Path, name: str, state: str, rate: str, layer: str = "InfiniBand") -> None:
    port = folder / name / "ports" / "1"
    port.mkdir(parents=True)
    for file, text in (("state", state), ("rate", rate), ("link_layer", layer)):
        (port / file).write_text(text + "\n")


def test_infiniband(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddpify.doctor.infiniband.locked_memory", lambda: None)
    assert list(check_infiniband(tmp_path)) == []
    link(tmp_path, "mlx5_0", "4: ACTIVE", "400 Gb/sec (4X NDR)")
    link(tmp_path, "mlx5_1", "1: DOWN", "10 Gb/sec (4X SDR)")
    found = list(check_infiniband(tmp_path))
    assert [one.message for one in found] == [
        "port 1 of mlx5_1 is not active but DOWN",
        "InfiniBand: mlx5_0:1 400 Gb/sec (4X NDR)",
    ]
    monkeypatch.setattr("ddpify.doctor.infiniband.locked_memory", lambda: 64 << 10)
    (_, locked) = serious(list(check_infiniband(tmp_path)))
    assert locked.message.startswith("a process may lock 64 KiB of memory")


SMI = """\
#!/bin/sh
case "$1" in
  topo) printf 'GPU0\\tGPU1\\n' ;;
  --query-gpu*) echo "0, 550.54, Not Active, Not Active, 16, 16, 0, 1980, 1980"
     echo "1, 550.54, Active, Not Active, 8, 16, 3, 900, 1980" ;;
  *) echo "| NVIDIA-SMI 550.54    Driver Version: 550.54    CUDA Version: 12.4 |" ;;
esac
"""


def nvidia_smi(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    path = folder / "nvidia-smi"
    path.write_text(text)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_gpus_below_their_speed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia_smi(tmp_path, monkeypatch, SMI)
    known = driver()
    assert known is not None and (known.cuda, known.topology) == ((12, 4), "GPU0\tGPU1")
    first, *found = list(check_driver(known, "12.6"))
    assert first.message == "NVIDIA driver 550.54, for CUDA up to 12.4"
    assert [one.message for one in found] == [
        "GPU 1 has slowed itself down (900 of 1980 MHz): heat or power",
        "GPU 1 uses 8 of 16 PCIe lanes",
        "GPU 1 has 3 uncorrected memory error(s) since it was started",
    ]


def test_a_driver_that_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia_smi(tmp_path, monkeypatch, SMI)
    message = "torch is built for CUDA 13.0, but the driver supports 12.4 at most"
    assert message in [one.message for one in check_driver(driver(), "13.0")]


def test_a_driver_that_does_not_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = (
        "#!/bin/sh\necho 'Failed to initialize NVML: Driver/library version mismatch'\nexit 18"
    )
    nvidia_smi(tmp_path, monkeypatch, failing)
    (found,) = check_driver(driver(), "12.6")
    assert found.level is Level.ERROR
    assert found.message.endswith("NVML: Driver/library version mismatch")


def test_the_slow_link_is_named() -> None:
    pairs = itertools.combinations(range(4), 2)
    measured = {pair: 5.0 if pair == (1, 3) else 40.0 for pair in pairs}
    general, slow = links.judged(measured, ["n0", "n1", "n2", "n3"])
    assert general.message == "6 pairs of ranks: 5.00 to 40.00 GB/s, median 40.00"
    expected = "the link between rank 1 (n1) and rank 3 (n3) has 5.00 GB/s, others 40.00"
    assert slow.message == expected


def test_a_folder_that_one_node_does_not_see() -> None:
    (found,) = shared_folder.judged("/job", "", [True, True, False], ["n0", "n0", "n1"])
    assert found.message == "/job of rank 0 is not seen on n1"
    assert list(shared_folder.judged("/job", "", [True, True], ["n0", "n0"])) == []


def test_the_file_system_of_a_folder(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("/dev/a / ext4 rw 0 0\nserver:/x /data\\040sets nfs4 rw 0 0\n")
    assert file_system(Path("/data sets/faces"), mounts) == "nfs4"
    assert file_system(Path("/data"), mounts) == "ext4"


def test_a_report_holds_no_secrets(ddpify: Ddpify, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.setenv("SLURM_JWT", "hidden-one")
    monkeypatch.setenv("HF_TOKEN", "hidden-two")
    done = ddpify("env")
    assert done.code == 0 and "NCCL_DEBUG=INFO" in done.stdout
    assert "PyTorch version: " in done.stdout and "hidden" not in done.stdout
