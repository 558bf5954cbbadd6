"""The runs behind one verdict, each in a copy of its own, each made once."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ddpify.verify.compare import batches, failures, outputs, records
from ddpify.verify.compare.assembling import put_together
from ddpify.verify.compare.batches import Reading
from ddpify.verify.compare.records import Totals
from ddpify.verify.launch import copies, python_path
from ddpify.verify.launch.hashing import uses_hashes
from ddpify.verify.launch.job import Job
from ddpify.verify.launch.launcher import Run, Worker
from ddpify.verify.launch.layout import Layout
from ddpify.verify.launch.progress import Progress

NOISE = 1e-15
"""Relative size of the noise that stands for rounding: some units in the last place of float64."""
RECORDED_STEPS = 200


@dataclass(frozen=True)
class Limits:
    """What a run may take: optimizer steps (None: all), seconds, seconds without progress, GPUs."""

    steps: int | None
    timeout: float
    stall: float
    gpus: bool = False


@dataclass(frozen=True)
class Outcome:
    """A run with what it left behind."""

    run: Run
    copy: copies.Copy
    files: set[str]
    totals: list[Totals]

    @property
    def ok(self) -> bool:
        """Whether every rank ended well."""
        return self.run.ok

    @cached_property
    def paths(self) -> list[Path]:
        """The ranks' records."""
        out = Path(self.run.job.out)
        return [out / f"rank{rank}.jsonl" for rank in range(self.run.job.world_size)]

    @cached_property
    def loaders(self) -> list[list[Reading]]:
        """The loaders of each rank."""
        return [batches.read(path) for path in self.paths]

    def printed(self) -> list[str]:
        """The ranks' standard output."""
        return [self.run.text(rank, "out") for rank in range(self.run.job.world_size)]


class Runs:
    """Starts the scripts of one layout.

    Args:
        layout: What is copied for each run.
        base: A folder for the copies and the records.
        worker: The process that starts the ranks.
        args: Arguments of both scripts.
        limits: What a run may take.
        echo: Takes a line about progress.
    """

    def __init__(
        self,
        layout: Layout,
        base: Path,
        worker: Worker,
        args: tuple[str, ...],
        limits: Limits,
        echo: Callable[[str], None],
    ) -> None:
        self.layout, self.base, self.worker = layout, base, worker
        self.args, self.limits, self.echo = args, limits, echo
        self._count = 0
        self._noisy: dict[str, Outcome] = {}
        self._expected = limits.steps or 0

    def original(self, **variations: Any) -> Outcome:
        """The original on one process; ``variations``: fields of ``Job``."""
        return self._run(replace(self._job(self.layout.script), **variations))

    def torchrun(self, world_size: int, **variations: Any) -> Outcome:
        """``converted``, and again with CUDA redirected to the CPU if it does not run without."""
        self.echo(f"running {self.layout.converted.name} with --nproc {world_size}")
        other = self.converted(world_size, **variations)
        wants_cuda = failures.wants_cuda(other.run) and not other.run.job.gpus
        if wants_cuda and failures.hang(other.run) is None:
            self.echo("running it again, with CUDA redirected to the CPU")
            other = self.converted(world_size, cuda=True, **variations)
        return other

    def converted(self, world_size: int, **variations: Any) -> Outcome:
        """The converted script on ``world_size`` processes; ``variations``: fields of ``Job``."""
        job = replace(self._job(self.layout.converted), hash_seeds=self._uses_hashes)
        return self._run(replace(job, world_size=world_size, **variations), converted=True)

    @cached_property
    def _uses_hashes(self) -> bool:
        layout = self.layout
        return any(
            uses_hashes(layout.root, script)
            for script in (layout.converted_from, layout.root / layout.script)
        )

    def noisy(self, outcome: Outcome) -> Outcome:
        """``outcome`` once more with noise of the size of rounding: what chance alone changes."""
        key = outcome.run.job.out
        if key not in self._noisy:
            self.echo("again with rounding-sized noise, for the limits")
            self._noisy[key] = self._run(replace(outcome.run.job, noise=NOISE))
        return self._noisy[key]

    def _job(self, script: Path) -> Job:
        steps = self.limits.steps
        return Job(
            script=str(script),
            shown_as=os.path.relpath(script, self.layout.cwd),
            args=self.args,
            cwd="",
            root="",
            sandbox="",
            protected=self.layout.protected,
            hidden=str(self.base),
            out="",
            gpus=self.limits.gpus,
            steps=steps or RECORDED_STEPS,
            stop=steps is not None,
            timeout=self.limits.timeout,
            stall=self.limits.stall,
        )

    def _run(self, job: Job, *, converted: bool = False) -> Outcome:
        """``job`` in a new copy."""
        self._count += 1
        copy = copies.copy(self.layout, self.base / f"run{self._count}", converted=converted)
        before = copy.files()
        out = self.base / f"record{self._count}"
        job = replace(
            job,
            script=os.path.normpath(copy.cwd / job.shown_as),
            cwd=str(copy.cwd),
            root=str(copy.root),
            sandbox=str(copy.sandbox),
            out=str(out),
            leads=python_path.leads(self.layout, copy, converted=converted),
        )
        run = self.worker.run(job, Progress(out / "rank0.jsonl", self._expected, self.echo))
        self.echo(f"  {run.ended} in {run.seconds:.1f} s")
        put_together([out / f"rank{rank}.jsonl" for rank in range(job.world_size)])
        files = outputs.changed(before, copy.files())
        totals = [records.totals(out / f"rank{rank}.jsonl") for rank in range(job.world_size)]
        self._expected = self._expected or min(totals[0].steps, job.steps)
        return Outcome(run, copy, files, totals)
