"""Versions, devices and limits of this machine."""

from __future__ import annotations

import itertools
import os
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ddpify import __version__
from ddpify.doctor.findings import Finding, error, note, warning
from ddpify.doctor.infiniband import check_infiniband
from ddpify.doctor.nvidia import check_driver, driver

_SHARED_MEMORY = 1 << 30
_OPEN_FILES = 1024
_PAIRS = 4
"""The most pairs of GPUs that are listed one by one."""


def check_machine(env: Mapping[str, str]) -> Iterator[Finding]:
    """Findings about software, GPUs and limits."""
    try:
        import torch
    except ImportError:
        remedy = "pip install 'ddpify[torch]'"
        yield error("versions", "torch is not installed in this environment", remedy)
        return
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "no CUDA"
    python = platform.python_version()
    text = f"ddpify {__version__}, Python {python}, torch {torch.__version__} ({build})"
    yield note("versions", text)
    if not torch.distributed.is_available():
        yield error("versions", "this torch has no torch.distributed", "install another build")
    yield from _libraries(torch)
    yield from check_driver(driver(), torch.version.cuda)
    yield from _devices(torch, env)
    yield from check_infiniband()
    yield from _limits()


def _libraries(torch: Any) -> Iterator[Finding]:
    if torch.version.cuda and torch.distributed.is_nccl_available():
        nccl = ".".join(map(str, torch.cuda.nccl.version()))
        yield note("versions", f"NCCL {nccl}, cuDNN {torch.backends.cudnn.version()}")


def _devices(torch: Any, env: Mapping[str, str]) -> Iterator[Finding]:
    if not torch.cuda.is_available():
        yield from _no_gpu(torch)
        return
    count = torch.cuda.device_count()
    names = [torch.cuda.get_device_name(at) for at in range(count)]
    yield note("devices", f"{count} GPU(s): {', '.join(sorted(set(names)))}")
    if len(set(names)) > 1:
        remedy = "choose equal ones with CUDA_VISIBLE_DEVICES: all wait for the slowest"
        yield warning("devices", "the GPUs differ", remedy)
    ranks = int(env.get("LOCAL_WORLD_SIZE", "1"))
    if ranks > count:
        message = f"{ranks} ranks on this node for {count} GPU(s)"
        yield error("devices", message, f"use --nproc-per-node={count}")
    for at in range(count):
        free, total = torch.cuda.mem_get_info(at)
        if free < 0.9 * total:
            message = f"GPU {at} has {(total - free) / 2**30:.1f} of {total / 2**30:.0f} GiB in use"
            yield warning("devices", message, "look for other processes with nvidia-smi")
    yield from _peers(torch, count)


def _peers(torch: Any, count: int) -> Iterator[Finding]:
    """GPUs that cannot read each other's memory, which is slow but may be as they are made."""
    pairs = [
        f"{one} and {other}"
        for one, other in itertools.combinations(range(count), 2)
        if not torch.cuda.can_device_access_peer(one, other)
    ]
    if pairs:
        text = f"no peer access between GPUs {', '.join(pairs[:_PAIRS])}"
        more = f" and {len(pairs) - _PAIRS} other pairs" if len(pairs) > _PAIRS else ""
        yield note("devices", f"{text}{more}: they exchange data through the host's memory")
    elif count > 1:
        yield note("devices", "all GPUs have peer access to each other")


def _no_gpu(torch: Any) -> Iterator[Finding]:
    if torch.version.cuda:
        remedy = "check nvidia-smi and CUDA_VISIBLE_DEVICES; training would run on the CPU"
        yield warning("devices", "this torch is for CUDA, but sees no GPU", remedy)
    elif Path("/dev/nvidia0").exists():
        remedy = "install a CUDA build of torch"
        yield warning("devices", "there is a GPU, but this torch is for the CPU", remedy)
    else:
        yield note("devices", f"no GPU; {os.cpu_count()} CPU core(s)")


def _limits() -> Iterator[Finding]:
    shared = Path("/dev/shm")
    if shared.is_dir():
        stat = os.statvfs(shared)
        size = stat.f_frsize * stat.f_blocks
        if size < _SHARED_MEMORY:
            message = f"/dev/shm has {size >> 20} MiB: loader workers and NCCL need more"
            remedy = "docker run --shm-size=8g; in Kubernetes, an emptyDir in memory at /dev/shm"
            yield warning("devices", message, remedy)
    if os.name == "posix":
        import resource

        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if 0 <= files < _OPEN_FILES:
            message = f"at most {files} open files: sockets and workers need more"
            yield warning("devices", message, "ulimit -n 65536")
