"""Whether the runs ended well and did something to compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ddpify.verify.compare import causes, failures, matching, steps
from ddpify.verify.compare.loops import left_loop
from ddpify.verify.compare.records import Totals
from ddpify.verify.launch.launcher import Run
from ddpify.verify.verdict import Comparison, Kind

NOT_SIMULATED = {
    "torch.autocast (off)": "mixed precision was off: its rounding and overflows are not compared",
    "gradient compression": "gradients were not compressed: the rounding of that is not compared",
    "torch.compile": "torch.compile was off: what it generates is not compared",
}
IMPORTED = "imported from outside the script's folder, by both scripts alike: {modules}"

REMEDIES = {
    "\nusage: ": "\n  remedy: give the script its arguments after --",
    "\nEOFError": "\n  remedy: let the script ask for nothing: its standard input is empty here",
    "writes outside its folder": "\n  remedy: let it write below its folder",
}
"""What helps an original that fails, by what it says."""


def original(run: Run, record: Path) -> tuple[Kind, str | None]:
    """Whether the original ran and did something to compare with; why not."""
    if run.ended == "hung":
        text = f"the original did not end within {run.job.timeout:.0f} s"
        remedy = "give it less to do (arguments after --), or --steps, or more time with --timeout"
        return Kind.COULD_NOT_RUN, f"{text}\n  remedy: {remedy}"
    if not run.ok:
        tail = failures.traceback_tail(run)
        remedy = next((text for sign, text in REMEDIES.items() if sign in tail), "")
        return Kind.COULD_NOT_RUN, f"the original does not run here\n{tail}{remedy}"
    found = steps.moves(record)
    if not found.compared:
        return Kind.VACUOUS, "no optimizer made a step, so there is no training to compare"
    if not found.gradient:
        return (
            Kind.VACUOUS,
            "every gradient is zero: any two scripts would agree on this data and loss",
        )
    if not found.moved:
        return Kind.VACUOUS, "no parameter moved, so any two scripts would agree"
    return Kind.EQUIVALENT, None


def remarks(own: Totals) -> list[str]:
    """What the original does that was left out of the comparison, in sentences."""
    left_out = [text for name, text in NOT_SIMULATED.items() if own.faked.get(name)]
    outside = ", ".join(f"{name} ({folder})" for name, folder in sorted(own.outside.items()))
    return left_out + ([IMPORTED.format(modules=outside)] if outside else [])


def converted(comparison: Comparison, run: Run, ranks: Sequence[Totals]) -> bool:
    """Whether the converted run ended well; else what happened is added to ``comparison``."""
    if run.ok:
        return True
    hang = failures.hang(run, ranks)
    mismatch = matching.first(ranks, ended=False)
    if hang is not None:
        comparison.kind = Kind.NOT_EQUIVALENT
        comparison.differences.append(hang)
    elif mismatch is not None:
        comparison.kind = Kind.NOT_EQUIVALENT
        if left_loop(Path(run.job.root), mismatch):
            mismatch = replace(mismatch, cause=causes.CONTROL_FLOW)
        comparison.differences.append(mismatch.difference())
        comparison.notes.append(failures.traceback_tail(run))
    elif (found := failures.known(run)) is not None:
        comparison.kind = Kind.NOT_EQUIVALENT
        comparison.differences.append(found)
        comparison.failure = failures.traceback_tail(run)
    else:
        comparison.kind = Kind.COULD_NOT_RUN
        comparison.failure = failures.traceback_tail(run)
    return False
