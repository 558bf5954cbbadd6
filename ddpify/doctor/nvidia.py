"""NVIDIA's driver, as nvidia-smi tells: versions, topology, and GPUs below their speed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from ddpify.doctor.findings import Finding, error, note, warning

AREA = "devices"
_SECONDS = 30.0
_FIELDS = (
    "index",
    "driver_version",
    "clocks_throttle_reasons.hw_slowdown",
    "clocks_throttle_reasons.sw_thermal_slowdown",
    "pcie.link.width.current",
    "pcie.link.width.max",
    "ecc.errors.uncorrected.volatile.total",
    "clocks.sm",
    "clocks.max.sm",
)
_CUDA = re.compile(r"CUDA (?:UMD )?Version\s*:\s*(\d+)\.(\d+)")


@dataclass(frozen=True)
class Driver:
    """What nvidia-smi says; every text is empty where there is no nvidia-smi, or it fails.

    Attributes:
        gpus: A line for each GPU, of the fields asked for.
        cuda: The newest CUDA that the driver supports, as (major, minor).
        topology: The table of links between GPUs, network cards and CPU cores.
        failure: What nvidia-smi printed where it failed.
    """

    gpus: tuple[tuple[str, ...], ...] = ()
    cuda: tuple[int, int] | None = None
    topology: str = ""
    failure: str = ""


def driver() -> Driver | None:
    """What nvidia-smi says; None where there is none on this machine."""
    code, summary = smi()
    if code is None:
        return None
    if code:
        return Driver(failure=summary.strip().splitlines()[-1] if summary.strip() else "no output")
    _, table = smi(f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits")
    rows = (tuple(cell.strip() for cell in line.split(",")) for line in table.splitlines())
    version = _CUDA.search(summary)
    return Driver(
        gpus=tuple(row for row in rows if len(row) == len(_FIELDS)),
        cuda=(int(version[1]), int(version[2])) if version else None,
        topology=smi("topo", "-m")[1].rstrip(),
    )


def smi(*arguments: str) -> tuple[int | None, str]:
    """The exit code and output of nvidia-smi; the code is None where there is no such program."""
    command = ["nvidia-smi", *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, errors="replace"
        )
    except FileNotFoundError:
        return None, ""
    except (OSError, subprocess.TimeoutExpired) as failure:
        return 1, str(failure)
    return done.returncode, done.stdout + done.stderr


def check_driver(found: Driver | None, built_for: str | None) -> Iterator[Finding]:
    """Findings about the driver. ``built_for``: the CUDA version that torch is built for, if any.

    Args:
        found: From :func:`driver`.
        built_for: As in "12.6".
    """
    if found is None:
        return
    if found.failure:
        remedy = "install or reload the driver; in a container, start it with the GPUs"
        yield error(AREA, f"nvidia-smi fails: {found.failure}", remedy)
        return
    versions = ", ".join(sorted({row[1] for row in found.gpus}))
    cuda = ".".join(map(str, found.cuda)) if found.cuda else "unknown"
    if versions:
        yield note("versions", f"NVIDIA driver {versions}, for CUDA up to {cuda}")
    if built_for and found.cuda and found.cuda[0] < int(built_for.split(".")[0]):
        message = f"torch is built for CUDA {built_for}, but the driver supports {cuda} at most"
        yield error("versions", message, "update the driver, or install torch for an older CUDA")
    for row in found.gpus:
        yield from _one_gpu(*row)


def _one_gpu(
    index: str,
    _: str,
    slowdown: str,
    thermal: str,
    width: str,
    most: str,
    ecc: str,
    clock: str,
    top: str,
) -> Iterator[Finding]:
    if "Active" in (slowdown, thermal):
        message = f"GPU {index} has slowed itself down ({clock} of {top} MHz): heat or power"
        yield warning(AREA, message, "see nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER")
    if width.isdecimal() and most.isdecimal() and int(width) < int(most):
        message = f"GPU {index} uses {width} of {most} PCIe lanes"
        yield warning(AREA, message, "reseat the card, or use a slot with all lanes")
    if ecc.isdecimal() and int(ecc):
        message = f"GPU {index} has {ecc} uncorrected memory error(s) since it was started"
        yield error(AREA, message, "reset the GPU (nvidia-smi -r), and replace it if they return")
