"""``verify``: run the original once, the converted script at each number of processes, and
compare."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ddpify.errors import DdpifyError, ExitCode
from ddpify.verify.compare import failures, judging, outputs, records, steps
from ddpify.verify.compare.records import Totals
from ddpify.verify.launch import copies
from ddpify.verify.launch.job import Job
from ddpify.verify.launch.launcher import Run, Worker
from ddpify.verify.report.text import processes
from ddpify.verify.verdict import Comparison, Kind, Verdict, worst

NOISE = 1e-15
"""Relative size of the noise that stands for rounding: some units in the last place of float64."""
RECORDED_STEPS = 200
TIMEOUT = 600.0


@dataclass(frozen=True)
class Outcome:
    """A run with what it left behind."""

    run: Run
    copy: copies.Copy
    files: set[str]
    totals: list[Totals]

    @cached_property
    def paths(self) -> list[Path]:
        """The ranks' records."""
        out = Path(self.run.job.out)
        return [out / f"rank{rank}.jsonl" for rank in range(self.run.job.world_size)]

    def printed(self) -> list[str]:
        """The ranks' standard output."""
        return [self.run.text(rank, "out") for rank in range(self.run.job.world_size)]


def verify(
    original: Path,
    converted: Path | None = None,
    *,
    nproc: Sequence[int] = (2,),
    steps: int | None = None,
    script_args: Sequence[str] = (),
    timeout: float = TIMEOUT,
    stall: float = 20.0,
    convert: Callable[[Path, Path], None] | None = None,
    echo: Callable[[str], None] = lambda line: None,
    worker: Worker | None = None,
) -> Verdict:
    """Say whether ``converted`` on several processes trains like ``original`` on one.

    Everything runs in copies, on the CPU, in double precision. The first 200 optimizer steps are
    compared one by one; the scripts run to their end.

    Args:
        original: The script for one process.
        converted: The script for torchrun; None to make it with ``convert``.
        nproc: Numbers of processes to run the converted script with.
        steps: End both scripts after this many optimizer steps (the same place in both).
        script_args: Arguments of both scripts.
        timeout: Seconds that one run may take.
        stall: Seconds without progress, a rank in a collective, that count as a hang.
        convert: Called with the original's path and the path to write the converted script to.
        echo: Takes a line about progress.
        worker: A process that has imported torch already, for several calls; see ``warm_worker``.

    Raises:
        DdpifyError: A script cannot be read, torch is missing, or what ``convert`` raises.
    """
    start = time.monotonic()
    _check_input(original, converted, nproc, convert)
    with tempfile.TemporaryDirectory(prefix="ddpify-verify-") as folder:
        base = Path(folder).resolve()
        target = converted or _convert(original, base, convert)
        layout = copies.lay_out(original, target, script_args)
        sources = original.read_text(errors="replace") + target.read_text(errors="replace")
        with contextlib.nullcontext(worker) if worker else warm_worker(sources) as ready:
            limits = _Limits(steps, timeout, stall)
            session = _Session(layout, base, ready, tuple(script_args), limits, echo)
            verdict = session.verdict(nproc)
        verdict.original, verdict.converted = str(original), str(converted or target.name)
        verdict.torch, verdict.seconds = ready.torch, time.monotonic() - start
    return verdict


@contextlib.contextmanager
def warm_worker(sources: str = "") -> Iterator[Worker]:
    """A process that has imported torch, and what ``sources`` (text of scripts) name besides."""
    folder = tempfile.TemporaryDirectory(prefix="ddpify-worker-")
    with folder as home, Worker(sources, Path(home)) as worker:
        yield worker


def _check_input(
    original: Path, converted: Path | None, nproc: Sequence[int], convert: object
) -> None:
    for path in (original, *([converted] if converted else [])):
        if not path.is_file():
            what = "is a folder, not a script" if path.is_dir() else "does not exist"
            raise DdpifyError(what, path=path, exit_code=ExitCode.USAGE)
    if not nproc or min(nproc) < 1:
        raise DdpifyError("the number of processes must be at least 1", exit_code=ExitCode.USAGE)
    if converted is None and convert is None:
        raise DdpifyError("no converted script is given", exit_code=ExitCode.USAGE)


def _convert(original: Path, base: Path, convert: Callable[[Path, Path], None] | None) -> Path:
    assert convert is not None
    target = base / "converted" / f"{original.stem}_ddp.py"
    target.parent.mkdir()
    convert(original, target)
    return target


@dataclass(frozen=True)
class _Limits:
    steps: int | None
    timeout: float
    stall: float


class _Session:
    """All runs for one verdict."""

    def __init__(
        self,
        layout: copies.Layout,
        base: Path,
        worker: Worker,
        args: tuple[str, ...],
        limits: _Limits,
        echo: Callable[[str], None],
    ) -> None:
        self.layout, self.base, self.worker = layout, base, worker
        self.args, self.limits, self.echo = args, limits, echo
        self._count = 0

    def verdict(self, nproc: Sequence[int]) -> Verdict:
        """Run everything and judge it."""
        verdict = Verdict("", "")
        own = self.original
        verdict.faked = own.totals[0].faked
        verdict.kind, verdict.failure = judging.judge_original(own.run, own.paths[0])
        verdict.steps = own.totals[0].steps
        if verdict.kind is not Kind.EQUIVALENT:
            return verdict
        verdict.comparisons = [self.compare(count) for count in nproc]
        verdict.kind = worst([comparison.kind for comparison in verdict.comparisons])
        return verdict

    @cached_property
    def original(self) -> Outcome:
        """The original on one process, with CUDA redirected if it does not run without."""
        self.echo("running the original on 1 process")
        own = self.run(self.layout.script, 1)
        idle = own.run.ok and not own.totals[0].steps and "cuda" in self._source()
        if idle or failures.wants_cuda(own.run):
            self.echo("running the original again, with CUDA redirected to the CPU")
            own = self.run(self.layout.script, 1, cuda=True)
        return own

    @cached_property
    def noisy(self) -> Outcome:
        """The original once more, with noise of the size of rounding: what chance alone changes."""
        self.echo("running the original with rounding-sized noise, for the limits")
        cuda = self.original.run.job.cuda
        return self.run(self.layout.script, 1, cuda=cuda, noise=NOISE)

    def compare(self, nproc: int) -> Comparison:
        """Run the converted script on ``nproc`` processes and compare it with the original."""
        self.echo(f"running the converted script on {processes(nproc)}")
        other = self.run(self.layout.converted, nproc)
        if failures.wants_cuda(other.run) and failures.hang(other.run) is None:
            self.echo("running it again, with CUDA redirected to the CPU")
            other = self.run(self.layout.converted, nproc, cuda=True)
        comparison = Comparison(nproc, Kind.EQUIVALENT, faked=other.totals[0].faked)
        if not judging.judge_run(comparison, other.run):
            return comparison
        self._compare_steps(comparison, other)
        self._compare_outputs(comparison, other)
        judging.conclude(comparison)
        return comparison

    def _compare_steps(self, comparison: Comparison, other: Outcome) -> None:
        found = steps.compare(self.original.paths[0], other.paths)
        if judging.may_be_rounding(found) and self.noisy.run.ok:
            found = steps.compare(self.original.paths[0], other.paths, self.noisy.paths[0])
        judging.judge_steps(comparison, found, self.original.totals[0], other.totals)

    def _compare_outputs(self, comparison: Comparison, other: Outcome) -> None:
        own = self.original
        text = judging.compare_printed(own.printed()[0], other.printed(), None)
        if text.wrong and self.noisy.run.ok:
            again = self.noisy.printed()[0]
            text = judging.compare_printed(own.printed()[0], other.printed(), again)
        judging.judge_printed(comparison, text)
        differences = outputs.compare(
            (own.copy.sandbox, own.files, own.totals[0]),
            (other.copy.sandbox, other.files, other.totals),
        )
        judging.judge_files(comparison, len(own.files), differences)

    def run(self, script: Path, world: int, *, cuda: bool = False, noise: float = 0.0) -> Outcome:
        """One run in a copy of its own."""
        self._count += 1
        sandbox = self.base / f"run{self._count}"
        copy = copies.copy(self.layout, sandbox)
        before = copy.files()
        job = Job(
            script=str(copy.root / script),
            shown_as=str(script),
            args=self.args,
            cwd=str(copy.root),
            sandbox=str(copy.sandbox),
            protected=self.layout.protected,
            out=str(self.base / f"record{self._count}"),
            world_size=world,
            cuda=cuda,
            noise=noise,
            steps=self.limits.steps or RECORDED_STEPS,
            stop=self.limits.steps is not None,
            timeout=self.limits.timeout,
            stall=self.limits.stall,
        )
        run = self.worker.run(job)
        self.echo(f"  {run.ended} in {run.seconds:.1f} s")
        files = outputs.changed(before, copy.files())
        ranks = range(world)
        totals = [records.totals(Path(job.out, f"rank{rank}.jsonl")) for rank in ranks]
        return Outcome(run, copy, files, totals)

    def _source(self) -> str:
        return (self.layout.root / self.layout.script).read_text(errors="replace")
