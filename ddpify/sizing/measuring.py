"""Measures what a script builds, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ddpify.errors import DdpifyError
from ddpify.sizing.steps import Steps, environment


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
        samples: Samples of the data set; None where it does not say.
        activations: Bytes that autograd keeps for the backward of one of them; None where the step
            failed, or took too long.
        smaller: A smaller batch and the activations of that; None where it could not be measured.
        steps: Activations of any number of samples; None where the step was not tried without
            memory.
    """

    pieces: list[list[Any]]
    buffers: int
    models: list[str]
    optimizers: list[str]
    guessed: list[str]
    device_memory: int | None
    batch: int | None = None
    samples: int | None = None
    activations: int | None = None
    smaller: tuple[int, int] | None = None
    steps: Steps | None = None

    def close(self) -> None:
        """Try no more steps."""
        if self.steps is not None:
            self.steps.close()

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
    """Run a script as one process up to its first backward, and try other batches.

    ``precision``: a dtype other than float32 runs the step under autocast. Half the batch is
    measured as well: on tensors without memory, or by another run of the script.

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
    if not found.batch or found.batch < 2 or not found.activations:
        return found
    steps = Steps(run.command("", f"{found.batch}?"), timeout)
    half = found.batch // 2
    if not steps.agree(found.batch, found.activations):
        steps.close()
        return replace(found, smaller=_smaller(run, found, half), steps=steps)
    less = steps.activations(half)
    return replace(found, smaller=(half, less) if less else None, steps=steps)


def _smaller(run: _Run, found: Measurement, half: int) -> tuple[int, int] | None:
    """Half the batch and its activations; None where the script needs its own number of samples."""
    try:
        cut = run.measured(f"{found.batch}:{half}")
    except DdpifyError:
        return None
    less = cut.activations if cut.batch == half else None
    return (half, less) if less and less < (found.activations or 0) else None


@dataclass(frozen=True)
class _Run:
    """A script and how it is run, to be measured more than once."""

    script: Path
    arguments: Sequence[str]
    timeout: float
    precision: str

    def command(self, result: str, batch: str) -> list[str]:
        """A run of ``child``, with what it takes."""
        given = [result, self.precision, batch, str(self.script), *self.arguments]
        return [sys.executable, "-m", "ddpify.sizing.child", *given]

    def measured(self, batch: str) -> Measurement:
        """What one run found. ``batch``: as ``child`` takes it."""
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder, "measured.json")
            done = _run(self.command(str(result), batch), self.timeout)
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
    try:
        return subprocess.run(
            command,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
