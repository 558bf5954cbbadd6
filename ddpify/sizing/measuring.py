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
from ddpify.sizing.steps import WORKSPACE, Kept, Steps, environment


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
        temporaries: Bytes that an optimizer's step makes for itself.
        activations: Bytes that autograd keeps for the backward of one of them; None where the step
            failed, or took too long.
        peak: Bytes at the peak of forward and backward: see ``Kept``.
        tensors: The part of them that tensors took; the rest are workspaces of libraries.
        smaller: A smaller batch and what that keeps; None where it could not be measured.
        steps: What any number of samples keeps; None where the step was not tried without memory.
    """

    pieces: list[list[Any]]
    buffers: int
    models: list[str]
    optimizers: list[str]
    guessed: list[str]
    temporaries: int
    device_memory: int | None
    batch: int | None = None
    samples: int | None = None
    activations: int | None = None
    peak: int | None = None
    tensors: int | None = None
    smaller: tuple[int, Kept] | None = None
    steps: Steps | None = None

    def close(self) -> None:
        """Try no more steps."""
        if self.steps is not None:
            self.steps.close()

    @property
    def kept(self) -> Kept | None:
        """What a step with the script's own batch keeps."""
        return None if self.activations is None else Kept(self.activations, self.peak)

    def step_on(self, ranks: int, parts: int = 1) -> int | None:
        """Bytes that a step adds on a rank of so many, if they were measured: see :meth:`needed`.

        What two batches kept gives a sample's share, and what does not grow with the batch.
        """
        kept = self.kept
        if kept is None:
            return None
        if not self.batch:
            own = (None if n is None else -(-n // ranks) for n in (kept.activations, kept.peak))
            return self.needed(Kept(*own), parts)  # type: ignore[arg-type]
        return self.needed(self.calculated(-(-self.batch // ranks)), parts)

    @property
    def workspace(self) -> int:
        """Bytes that operations take for themselves."""
        return WORKSPACE if self.peak is None or self.tensors is None else self.peak - self.tensors

    def needed(self, kept: Kept, parts: int = 1) -> int:
        """Bytes beside parameters, gradients, states and buffers, in the part that takes most.

        That is forward and backward, or the optimizer's step, whose activations are gone.
        ``parts``: what each parameter is divided into.
        """
        most = kept.activations + WORKSPACE if kept.peak is None else kept.peak
        return max(most, self.temporaries // parts + self.workspace)

    def tried(self, batch: int) -> Kept | None:
        """What so many samples keep in a step without memory; None where there is no such step."""
        kept = self.steps.kept(batch) if self.steps else None
        if kept is None or kept.peak is None:
            return kept
        return replace(kept, peak=kept.peak + self.workspace)

    def calculated(self, batch: int) -> Kept:
        """What so many samples keep, on the line through the two batches that were measured."""
        own, size = self.kept, self.batch
        assert own is not None and size
        less, smaller = (Kept(0, None), 0) if self.smaller is None else self.smaller[::-1]

        def line(at: int, below: int) -> int:
            return round(at + (at - below) / (size - smaller) * (batch - size))

        if own.peak is None or less.peak is None:
            return Kept(line(own.activations, less.activations), None)
        return Kept(line(own.activations, less.activations), line(own.peak, less.peak))

    @property
    def per_sample(self) -> float:
        """Bytes of activations that one more sample takes; 0 where they were not measured."""
        return self._slope("activations")

    @property
    def growth(self) -> float:
        """Bytes of the peak that one more sample takes."""
        return self._slope("peak") or self.per_sample

    def _slope(self, what: str) -> float:
        own = getattr(self.kept, what, None)
        if not self.batch or not own:
            return 0.0
        if self.smaller is None:
            return float(own / self.batch)
        batch, less = self.smaller
        return float((own - (getattr(less, what) or 0)) / (self.batch - batch))


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
    found = replace(found, steps=steps)
    less = found.tried(half)
    return replace(found, smaller=(half, less) if less else None)


def _smaller(run: _Run, found: Measurement, half: int) -> tuple[int, Kept] | None:
    """Half the batch and what it keeps; None where the script needs its own number of samples."""
    try:
        cut = run.measured(f"{found.batch}:{half}")
    except DdpifyError:
        return None
    less = cut.kept if cut.batch == half else None
    fewer = less is not None and less.activations < (found.activations or 0)
    return (half, less) if less is not None and fewer else None


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
