"""From findings to a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ddpify.verify.compare import causes, failures, prints, steps
from ddpify.verify.compare.prints import TextFindings
from ddpify.verify.compare.records import Totals
from ddpify.verify.compare.steps import StepFindings
from ddpify.verify.launch.launcher import Run
from ddpify.verify.verdict import Check, Comparison, Difference, Kind, What

NEVER_ROUNDING = 1e-2
"""Relative differences above this are not looked at twice."""
compare_printed = prints.compare


def judge_original(run: Run, record: Path) -> tuple[Kind, str | None]:
    """Whether the original ran and did something to compare with; why not."""
    if run.ended == "hung":
        text = f"the original did not end within {run.job.timeout:.0f} s"
        remedy = "give it less to do (arguments after --), or --steps, or more time with --timeout"
        return Kind.COULD_NOT_RUN, f"{text}\n  remedy: {remedy}"
    if not run.ok:
        tail = failures.traceback_tail(run)
        return Kind.COULD_NOT_RUN, f"the original does not run here\n{tail}"
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


def judge_run(comparison: Comparison, run: Run) -> bool:
    """Whether the converted run ended well; else what happened is added to ``comparison``."""
    if run.ok:
        return True
    hang = failures.hang(run)
    if hang is not None:
        comparison.kind = Kind.NOT_EQUIVALENT
        comparison.differences.append(hang)
    else:
        comparison.kind = Kind.COULD_NOT_RUN
        comparison.failure = failures.traceback_tail(run)
    return False


def may_be_rounding(found: StepFindings) -> bool:
    """Whether all that differs is so small that rounding, amplified, might explain it."""
    sizes = [item.size for item in found.differences if item.what not in (What.DATA, What.LOSS)]
    return bool(sizes) and all(size is not None and size < NEVER_ROUNDING for size in sizes)


def judge_steps(
    comparison: Comparison, found: StepFindings, own: Totals, ranks: Sequence[Totals]
) -> None:
    """Add the rows and differences about training itself."""
    comparison.differences += found.differences
    if not found.differences and (counts := _other_count(own, ranks)):
        comparison.differences.append(counts)
    kinds = {item.what for item in comparison.differences}
    partial = f" of {own.steps}" if found.compared < own.steps else ""
    comparison.checks += [
        Check("optimizer steps", What.STEPS not in kinds, f"{found.compared}{partial} compared"),
        _rows_check(found, kinds),
        _size_check("gradients", What.GRADIENT, found, kinds),
        Check("learning rates", What.LEARNING_RATE not in kinds),
        _size_check("parameters after each step", What.PARAMETER, found, kinds),
    ]
    _judge_work(comparison, own, ranks)


def _other_count(own: Totals, ranks: Sequence[Totals]) -> Difference | None:
    for rank, record in enumerate(ranks):
        if record.steps != own.steps:
            text = f"{record.steps} optimizer steps on rank {rank}; original {own.steps}"
            return Difference(What.STEPS, text, rank=rank, cause=causes.STEPS)
    return None


def _rows_check(found: StepFindings, kinds: set[What]) -> Check:
    what = "rows entering the model"
    if What.DATA in kinds:
        return Check(what, False, f"from step {found.rows_differ} on")
    if found.rows_everywhere:
        return Check(what, False, f"each rank has all of them, from step {found.rows_differ} on")
    if not found.rows_compared or found.rows_differ is not None:
        return Check(what, None, "not comparable")
    return Check(what, True)


def _size_check(name: str, what: What, found: StepFindings, kinds: set[What]) -> Check:
    passed = what not in kinds and not (what is What.PARAMETER and What.START in kinds)
    limit = f" (limit {found.limit:.0e})" if passed else ""
    size = found.largest.get(what)
    return Check(name, passed, f"largest difference {size:.1e}{limit}" if size is not None else "")


def _judge_work(comparison: Comparison, own: Totals, ranks: Sequence[Totals]) -> None:
    """The share of the original's work that each rank does: elements that meet parameters."""
    if not own.work or comparison.nproc == 1:
        return
    shares = [record.work / own.work for record in ranks]
    limit = (1 + 1 / comparison.nproc) / 2
    listed = " ".join(f"{share:.0%}" for share in shares)
    split = max(shares) < limit
    comparison.checks.append(Check("work divided", split, f"{listed} of the original's by rank"))
    if not split:
        rank = max(range(len(shares)), key=shares.__getitem__)
        text = f"the work is not split: rank {rank} does {shares[rank]:.0%} of the original's"
        found = Difference(What.WORK, text, size=shares[rank], rank=rank, cause=causes.WORK)
        comparison.differences.append(found)


def judge_printed(comparison: Comparison, found: TextFindings) -> None:
    """Add the row and the differences about printed lines."""
    comparison.checks.append(Check("printed lines", found.same, f"{found.lines}"))
    if found.wrong:
        own, other = found.wrong[0]
        text = f"prints {other!r}; original {own!r}"
        cause = causes.PRINTED_NUMBER
        comparison.differences.append(Difference(What.PRINTED, text, name=own, cause=cause))
    if found.missing:
        text = f"does not print {found.missing[0]!r} ({len(found.missing)} such lines)"
        comparison.differences.append(Difference(What.PRINTED, text, name=found.missing[0]))
    if found.repeated:
        line, times = found.repeated[0]
        text = f"the line {line!r} comes {times} times ({len(found.repeated)} such lines)"
        cause = causes.PRINTED_TWICE
        comparison.differences.append(Difference(What.PRINTED, text, name=line, cause=cause))
    extra = len(found.extra) - len(found.repeated)
    if extra > 0:
        comparison.notes.append(f"rank 0 prints {extra} lines that the original does not print")


def judge_files(comparison: Comparison, count: int, differences: list[Difference]) -> None:
    """Add the row and the differences about written files."""
    comparison.checks.append(Check("files written", not differences, f"{count}"))
    comparison.differences += differences


def conclude(comparison: Comparison) -> None:
    """Set the verdict of a comparison whose runs ended well."""
    order = list(What)
    comparison.differences.sort(key=lambda item: order.index(item.what))
    comparison.kind = Kind.NOT_EQUIVALENT if comparison.differences else Kind.EQUIVALENT
