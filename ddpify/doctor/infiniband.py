"""InfiniBand and RoCE devices, and the memory that they need to lock."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ddpify.doctor.findings import Finding, note, warning

AREA = "network"
DEVICES = Path("/sys/class/infiniband")


def check_infiniband(devices: Path = DEVICES) -> Iterator[Finding]:
    """Findings about the ports; none where there are no such devices."""
    ports = sorted(devices.glob("*/ports/*"))
    if not ports:
        return
    up = [port for port in ports if "ACTIVE" in _read(port / "state")]
    for port in ports:
        if port not in up:
            state = _read(port / "state").partition(": ")[2] or "unknown"
            message = f"port {port.name} of {_device(port)} is not active but {state}"
            remedy = "check its cable and the subnet manager, or name the others in NCCL_IB_HCA"
            yield warning(AREA, message, remedy)
    if up:
        named = ", ".join(f"{_device(p)}:{p.name} {_read(p / 'rate')}".rstrip() for p in up)
        yield note(AREA, f"{_kind(up)}: {named}")
        yield from _locked_memory()


def _device(port: Path) -> str:
    return port.parent.parent.name


def _kind(ports: list[Path]) -> str:
    """Ethernet as the link layer means RDMA over converged Ethernet."""
    layers = {_read(port / "link_layer") for port in ports}
    return "RoCE" if layers == {"Ethernet"} else "InfiniBand"


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def locked_memory() -> int | None:
    """The most bytes that a process may lock in memory; None for any number, or unknown."""
    if os.name != "posix":
        return None
    import resource

    most, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return None if most == resource.RLIM_INFINITY else most


def _locked_memory() -> Iterator[Finding]:
    most = locked_memory()
    if most is not None:
        message = f"a process may lock {most >> 10} KiB of memory: RDMA fails where it needs more"
        remedy = "ulimit -l unlimited; docker run --ulimit memlock=-1; LimitMEMLOCK for slurmd"
        yield warning(AREA, message, remedy)
