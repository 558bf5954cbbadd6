"""Measures what a script builds, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
        smaller: A smaller batch and the activations of that; None where it could not be measured.
    """

    pieces: list[list[Any]]
    buffers: int
    models: list[str]
    optimizers: list[str]
    guessed: list[str]
    device_memory: int | None
    batch: int | None = None
    activations: int | None = None
    smaller: tuple[int, int] | None = None

    def activations_on(self, ranks: int) -> int | None:
        """Bytes that autograd keeps on a rank of so many, if they were measured.

        What two batches kept gives a sample's share, and what does not grow with the batch.
        """
        if self.activations is None:
            return None
        if not self.batch:
            return -(-self.activations // ranks)
        return round(self.fixed + self.per_sample * -(-self.batch // ranks))

    @property
    def per_sample(self) -> float:
        """Bytes of activations that one more sample takes; 0 where they were not measured."""
        if not self.batch or not self.activations:
            return 0.0
        if self.smaller is None:
            return self.activations / self.batch
        batch, activations = self.smaller
        return (self.activations - activations) / (self.batch - batch)

    @property
    def fixed(self) -> float:
        """Bytes of activations that do not grow with the batch, such as copies of weights."""
        return (self.activations or 0) - self.per_sample * (self.batch or 0)


def measure(
    script: Path, arguments: Sequence[str], timeout: float, precision: str = "float32"
) -> Measurement:
    """Run a script as one process up to its first backward, and again with half its batch.

    ``precision``: a dtype other than float32 runs the step under autocast.

    Raises:
        DdpifyError: The script is not there, fails before its first batch or has none within
            ``timeout`` seconds, or builds no model with an optimizer.
    """
    if not script.is_file():
        raise DdpifyError("there is no such script", path=script, remedy="name a file", exit_code=2)
    run = _Run(script, arguments, timeout, precision)
    found = run.measured("")
    if not found.pieces:
        raise DdpifyError(
            "no model with an optimizer was there at its first batch",
            path=script,
            remedy="plan the script that trains",
        )
    return replace(found, smaller=_smaller(run, found))


def _smaller(run: _Run, found: Measurement) -> tuple[int, int] | None:
    """Half the batch and its activations; None where the script needs its own number of samples."""
    if not found.batch or found.batch < 2 or not found.activations:
        return None
    half = found.batch // 2
    try:
        cut = run.measured(f"{found.batch}:{half}")
    except DdpifyError:
        return None
    fits = cut.batch == half and cut.activations and cut.activations < found.activations
    return (half, cut.activations) if fits and cut.activations else None


@dataclass(frozen=True)
class _Run:
    """A script and how it is run, to be measured more than once."""

    script: Path
    arguments: Sequence[str]
    timeout: float
    precision: str

    def measured(self, batch: str) -> Measurement:
        """What one run found. ``batch``: as ``child`` takes it."""
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder, "measured.json")
            given = [str(result), self.precision, batch, str(self.script), *self.arguments]
            command = [sys.executable, "-m", "ddpify.sizing.child", *given]
            done = _run(command, self.timeout)
            if not result.is_file():
                raise _nothing(self.script, done, self.timeout)
            return Measurement(**json.loads(result.read_text()))


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
