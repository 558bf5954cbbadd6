"""`ddpify doctor --report` and `ddpify env`: what one pastes into a bug report."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ddpify import __version__
from ddpify.doctor.findings import Finding
from ddpify.doctor.infiniband import locked_memory
from ddpify.doctor.mounts import file_system
from ddpify.doctor.nvidia import driver

_PREFIXES = (
    "CUDA_", "DDPIFY_", "FI_", "GLOO_", "GROUP_", "LOCAL_", "MASTER_", "NCCL_", "NVIDIA_", "OMP_",
    "PYTORCH_", "ROLE_", "SLURM_", "TORCH", "UCX_", "WORLD_SIZE",
)  # fmt: skip
_NAMES = ("RANK", "JOB_COMPLETION_INDEX", "PYTHONPATH")
_SECRET = ("TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "_KEY", "_JWT")


def environment_report() -> str:
    """Versions, limits, variables and links of this machine, as Markdown; nothing is tested."""
    parts = [_facts(), _variables(os.environ)]
    known = driver()
    if known is not None and known.topology:
        parts.append(f"### nvidia-smi topo -m\n\n{_block(known.topology)}")
    parts.append(f"### torch.utils.collect_env\n\n{_block(_collected())}")
    return "\n\n".join(parts)


def doctor_report(findings: Sequence[Finding], text: str) -> str:
    """The findings, as ``text``, and the environment."""
    serious = sum(1 for one in findings if one.remedy)
    return f"## ddpify doctor: {serious} finding(s)\n\n{_block(text)}\n\n{environment_report()}"


def _block(text: str) -> str:
    return f"```text\n{text}\n```"


def _facts() -> str:
    most = locked_memory()
    facts = {
        "ddpify": f"{__version__} ({Path(__file__).resolve().parents[1]})",
        "Python": f"{platform.python_version()} ({sys.executable})",
        "platform": platform.platform(),
        "CPU cores": f"{_usable_cores()} usable of {os.cpu_count()}",
        "locked memory": "unlimited or unknown" if most is None else f"{most >> 10} KiB",
        "working folder": f"{Path.cwd()} ({file_system(Path.cwd())})",
    }
    lines = "\n".join(f"- {name}: {value}" for name, value in facts.items())
    return f"### Environment\n\n{lines}"


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _variables(env: Mapping[str, str]) -> str:
    """Variables of launchers and backends, without any whose name says that it is a secret."""
    known = sorted(
        name
        for name in env
        if (name.startswith(_PREFIXES) or name in _NAMES)
        and not any(word in name.upper() for word in _SECRET)
    )
    text = "\n".join(f"{name}={env[name]}" for name in known) or "none is set"
    return f"### Variables of launchers and backends\n\n{_block(text)}"


def _collected() -> str:
    """PyTorch's own report, without the CPU's flags and the list of its vulnerabilities."""
    try:
        from torch.utils.collect_env import get_pretty_env_info
    except ImportError:
        return "torch is not installed"
    text: str = get_pretty_env_info()  # type: ignore[no-untyped-call]
    return "\n".join(
        line for line in text.strip().splitlines() if not line.startswith(("Flags:", "Vulnerab"))
    )
