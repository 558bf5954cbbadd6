"""Measures what a script builds, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddpify.errors import DdpifyError

_LAUNCH = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}


@dataclass(frozen=True)
class Measurement:
    """What a script had built when it asked for its first batch, and what one step kept.

    Attributes:
        pieces: For each parameter its rows, bytes of a row, unit of sharding (0: none of the
            blocks), whether it is trained, and its optimizer states as a multiple of its bytes.
        buffers: Bytes.
        models: Their classes.
        optimizers: Their classes.
        guessed: Optimizers whose states could not be measured, and were taken for Adam's.
        device_memory: Bytes of a GPU of this machine, if it has one.
        batch: Samples of the script's batches; None where it makes them by hand.
        activations: Bytes that autograd keeps for the backward of one of them; None where the step
            failed, or took too long.
    """

    pieces: list[list[Any]]
    buffers: int
    models: list[str]
    optimizers: list[str]
    guessed: list[str]
    device_memory: int | None
    batch: int | None = None
    activations: int | None = None


def measure(
    script: Path, arguments: Sequence[str], timeout: float, precision: str = "float32"
) -> Measurement:
    """Run a script as one process up to its first backward.

    ``precision``: a dtype other than float32 runs the step under autocast.

    Raises:
        DdpifyError: The script is not there, fails before its first batch or has none within
            ``timeout`` seconds, or builds no model with an optimizer.
    """
    if not script.is_file():
        raise DdpifyError("there is no such script", path=script, remedy="name a file", exit_code=2)
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "measured.json")
        command = [sys.executable, "-m", "ddpify.sizing.child", str(result), precision, str(script)]
        done = _run([*command, *arguments], timeout)
        if not result.is_file():
            raise _nothing(script, done, timeout)
        found = Measurement(**json.loads(result.read_text()))
    if not found.pieces:
        raise DdpifyError(
            "no model with an optimizer was there at its first batch",
            path=script,
            remedy="plan the script that trains",
        )
    return found


def _nothing(
    script: Path, done: subprocess.CompletedProcess[str] | None, timeout: float
) -> DdpifyError:
    """Why there is no measurement. ``done``: the process, None where it took too long."""
    if done is None:
        message = f"no batch within {timeout:g} seconds"
        return DdpifyError(message, path=script, remedy="give --timeout SECONDS")
    return DdpifyError(
        "the script ends before it builds a model:\n" + done.stderr.strip()[-2000:],
        path=script,
        remedy="give its arguments after --, as on the command line",
    )


def _run(command: list[str], timeout: float) -> subprocess.CompletedProcess[str] | None:
    """The finished process; None where it took too long."""
    kept = {name: value for name, value in os.environ.items() if name not in _LAUNCH}
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, [package, kept.get("PYTHONPATH")]))
    try:
        return subprocess.run(
            command,
            env={**kept, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
