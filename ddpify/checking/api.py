"""``check``: run a torchrun script once and judge what its ranks do against each other."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ddpify.checking.acts import act_findings
from ddpify.checking.chance import chance_findings
from ddpify.checking.devices import device_findings
from ddpify.checking.exchanges import exchange_findings, exchange_notes, group_findings
from ddpify.checking.findings import Finding, Report
from ddpify.checking.order import order_findings
from ddpify.checking.outside import outside_findings
from ddpify.checking.recording import Recording
from ddpify.checking.samples import sample_findings
from ddpify.checking.silencing import split_silenced
from ddpify.checking.state import state_findings
from ddpify.checking.values import Values, value_findings
from ddpify.errors import DdpifyError, ExitCode
from ddpify.verify import warm_worker
from ddpify.verify.compare import failures
from ddpify.verify.launch import python_path
from ddpify.verify.launch.launcher import Worker
from ddpify.verify.launch.layout import lay_out
from ddpify.verify.runs import Limits, Runs

STALL = 8.0
"""Seconds without any rank using the processor that count as a hang."""
SKIPPED = {
    "torch.compile": "torch.compile",
    "Module.compile": "torch.compile",
    "torch.autocast (off)": "autocast",
    "GradScaler (off)": "gradient scalers",
}
"""What the CPU command leaves out of a script, by the name of the call that is answered."""
NOTHING_RECORDED = (
    "no rank made an optimizer step, began a collective or read a loader: there is nothing to "
    "compare (does the script leave without a GPU, or train in processes that it starts itself?)"
)


def check(
    script: Path,
    *,
    nproc: int = 2,
    steps: int | None = None,
    script_args: Sequence[str] = (),
    timeout: float = 600.0,
    echo: Callable[[str], None] = lambda line: None,
    worker: Worker | None = None,
) -> Report:
    """Run ``script`` on ``nproc`` processes in a copy of its folder, on the CPU, and judge it.

    Args:
        script: A script for torchrun.
        nproc: Number of processes, at least 2.
        steps: End the script after so many optimizer steps.
        script_args: The script's arguments.
        timeout: Seconds that the run may take.
        echo: Takes a line about progress.
        worker: A process that has imported torch already, for several calls.

    Raises:
        DdpifyError: The script cannot be read, torch is missing, or ``nproc`` is less than 2.
    """
    start = time.monotonic()
    _check_input(script, nproc)
    report = Report(str(script), nproc)
    with tempfile.TemporaryDirectory(prefix="ddpify-check-") as folder:
        layout = lay_out(script, script, script_args, python_path=python_path.folders())
        sources = script.read_text(errors="replace")
        with (
            contextlib.nullcontext(worker)
            if worker
            else warm_worker(sources, "cpu", Path(folder)) as ready
        ):
            limits = Limits(steps, timeout, STALL)
            runs = Runs(layout, Path(folder).resolve(), ready, tuple(script_args), limits, echo)
            judge(report, _recorded(runs, nproc), layout.root)
    report.seconds = time.monotonic() - start
    return report


def _check_input(script: Path, nproc: int) -> None:
    if not script.is_file():
        raise DdpifyError("there is no such file", path=script, exit_code=ExitCode.USAGE)
    if nproc < 2:
        raise DdpifyError(
            "check compares ranks with each other, and one process has none to compare with",
            remedy="use --nproc 2 or more",
            exit_code=ExitCode.USAGE,
        )


def _recorded(runs: Runs, nproc: int) -> Recording:
    """One run; a second one with CUDA redirected where the script left without doing anything."""
    run = Recording(runs.torchrun(nproc, listings=False, checking=True))
    if not (run.empty and run.outcome.ok) or run.outcome.run.job.cuda:
        return run
    runs.echo("it did nothing without a GPU; running it again, with CUDA redirected to the CPU")
    return Recording(runs.converted(nproc, cuda=True, listings=False, checking=True))


def _failure(run: Recording) -> str | None:
    """Why the run cannot be judged, unless something was found."""
    if run.outcome.run.ended == "failed":
        return failures.traceback_tail(run.outcome.run)
    if run.timed_out:
        return (
            f"no end after {run.outcome.run.job.timeout:.0f} s: "
            "give --steps, a larger --timeout, or arguments for a shorter training"
        )
    return NOTHING_RECORDED if run.empty else None


def judge(report: Report, run: Recording, root: Path) -> None:
    """Fill in what the recording shows; ``root``: the user's folder."""
    report.steps = [totals.steps for totals in run.totals]
    order = [*group_findings(run)] or [*order_findings(run)]
    if not order:
        report.failure = _failure(run)
    if run.empty and run.outcome.ok:
        return
    staying, silenced = split_silenced(_once(_findings(run, order)), root)
    report.findings = [_from_here(one, root) for one in staying]
    report.silenced = [_from_here(one, root) for one in silenced]
    report.notes += _notes(run)
    if not any(report.steps) and report.failure is None:
        report.notes.append("no optimizer made a step: only collectives and output were watched")


def _findings(run: Recording, order: list[Finding]) -> list[Finding]:
    """``order``, what is wrong with the ranks' collectives, and all else."""
    found = [*order, *sample_findings(run)]
    if not found or run.outcome.ok:  # a rank that failed or hangs leaves its step unfinished
        found += state_findings(run)
    found += [*device_findings(run), *outside_findings(run), *act_findings(run),
              *exchange_findings(run)]  # fmt: skip
    numbers = Values(run)
    values = list(value_findings(run, numbers))  # these say where a number was computed
    known = {(one.code, one.at) for one in values}
    found = [*(one for one in found if (one.code, one.at) not in known), *values]
    return [*found, *chance_findings(run, numbers)]


def _once(found: list[Finding]) -> list[Finding]:
    """Each finding once: a loader that is made anew in each epoch tells the same of all."""
    unique: dict[tuple[str, str, str], Finding] = {}
    for one in found:
        unique.setdefault((one.code, one.at, one.message), one)
    return [*unique.values()]


def _notes(run: Recording) -> Iterator[str]:
    left_out = sorted(
        {SKIPPED[name] for one in run.totals for name in one.faked if name in SKIPPED}
    )
    if left_out:
        yield f"run in double precision, without {', '.join(left_out)}"
    yield from exchange_notes(run)


def _from_here(one: Finding, root: Path) -> Finding:
    """``one`` with its file relative to the current folder."""
    return replace(one, at=os.path.relpath(root / one.at)) if one.at else one
