"""From findings to a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ddpify.verify.compare import causes, failures, matching, prints, steps
from ddpify.verify.compare.data import DataFindings
from ddpify.verify.compare.evidence import RowComparison
from ddpify.verify.compare.prints import TextFindings
from ddpify.verify.compare.records import Totals
from ddpify.verify.compare.steps import StepFindings
from ddpify.verify.launch.launcher import Run
from ddpify.verify.verdict import Cause, Check, Comparison, Difference, Kind, What

NEVER_ROUNDING = 1e-2
"""Relative differences above this are not looked at twice."""
LEAST_WORK = 0.75
"""Share of the original's work that the ranks together do at least."""
SHARE = 0.25
"""How far a printed number may be from one rank's share of the original's, to be called so."""
NOT_SIMULATED = {
    "torch.autocast (off)": "mixed precision was off: its rounding and overflows are not compared",
    "torch.compile": "torch.compile was off: what it generates is not compared",
}
ARITHMETIC = frozenset(
    [
        What.START,
        What.STEPS,
        What.BETWEEN,
        What.LOSS,
        What.GRADIENT,
        What.LEARNING_RATE,
        What.PARAMETER,
        What.BUFFER,
    ]
)
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


def not_simulated(faked: Mapping[str, int]) -> list[str]:
    """What a script does that was left out of the comparison, in sentences."""
    return [text for name, text in NOT_SIMULATED.items() if faked.get(name)]


def judge_run(comparison: Comparison, run: Run, ranks: Sequence[Totals]) -> bool:
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
        comparison.differences.append(mismatch.difference())
        comparison.notes.append(failures.traceback_tail(run))
    else:
        comparison.kind = Kind.COULD_NOT_RUN
        comparison.failure = failures.traceback_tail(run)
    return False


def judge_data(
    comparison: Comparison, found: StepFindings, ids: DataFindings, *, split: bool
) -> None:
    """Answer whether the ranks train on the original's batches, and add the difference if not.

    The rows that enter the model decide where they can be compared, as a script may slice its
    batches after it has loaded them; the samples' indices say how they differ.
    """
    comparison.coverage = ids.coverage
    text, cause, step = "", None, found.rows_differ
    complete = found.rows_compared and not found.differences
    if ids.everywhere and not split:
        text, cause = "each rank trains on all samples of a batch", causes.NOT_SPLIT
    elif ids.everywhere and found.rows is not None and found.rows.everywhere:
        text, cause = "every rank trains on the same part of the samples", causes.LOST
    elif found.rows is not None:
        text, cause = _row_answer(found.rows, ids)
    elif ids.cause is not None and not complete:
        text, cause = ids.text, ids.cause
    comparison.same_data = cause is None if found.rows_compared or ids.compared else None
    if cause is not None:
        found_ = Difference(What.DATA, text, step, cause=cause)
        comparison.differences.append(found_)
    comparison.checks.append(_data_check(comparison, ids, cause))


def _row_answer(rows: RowComparison, ids: DataFindings) -> tuple[str, Cause]:
    if rows.everywhere:
        return "each rank trains on the same rows", causes.SAME_BATCHES
    if ids.cause is not None:
        return ids.text, ids.cause
    text = f"of {rows.total} rows that enter the model, {rows.missing} reach no rank"
    if rows.extra:
        text += f" and {rows.extra} are not the original's or come twice"
    if not ids.compared:
        return text, causes.OWN_BATCHES
    return text, causes.LOST if rows.missing else causes.DOUBLED


def _data_check(comparison: Comparison, ids: DataFindings, cause: Cause | None) -> Check:
    if comparison.same_data is None:
        return Check("samples in each batch", None, "not comparable")
    total = sum(item.samples for item in ids.coverage)
    remark = f"{total} samples in {len(ids.coverage)} passes" if ids.coverage else ""
    return Check("samples in each batch", cause is None, remark)


def may_be_rounding(found: StepFindings) -> bool:
    """Whether all that differs is so small that rounding, amplified, might explain it."""
    sizes = [item.size for item in found.differences if item.what is not What.LOSS]
    return bool(sizes) and all(size is not None and size < NEVER_ROUNDING for size in sizes)


def judge_steps(
    comparison: Comparison, found: StepFindings, own: Totals, ranks: Sequence[Totals]
) -> None:
    """Add the rows and differences about the arithmetic of training."""
    comparison.differences += found.differences
    if not found.differences and (counts := _other_count(own, ranks)):
        comparison.differences.append(counts)
    kinds = {item.what for item in comparison.differences}
    partial = f" of {own.steps}" if found.compared < own.steps else ""
    comparison.checks += [
        Check("optimizer steps", What.STEPS not in kinds, f"{found.compared}{partial} compared"),
        _size_check("gradients", What.GRADIENT, found, kinds),
        Check("learning rates", What.LEARNING_RATE not in kinds),
        _size_check("parameters after each step", What.PARAMETER, found, kinds),
        _size_check("buffers", What.BUFFER, found, kinds),
    ]
    if found.syncs > 1:
        comparison.notes.append(
            f"gradients are averaged {found.syncs} times for one optimizer step: "
            "model.no_sync() around all but the last backward saves that [DDP801]"
        )


def _other_count(own: Totals, ranks: Sequence[Totals]) -> Difference | None:
    for rank, record in enumerate(ranks):
        if record.steps != own.steps:
            text = f"{record.steps} optimizer steps on rank {rank}; original {own.steps}"
            return Difference(What.STEPS, text, rank=rank, cause=causes.STEPS)
    return None


def _size_check(name: str, what: What, found: StepFindings, kinds: set[What]) -> Check:
    passed = what not in kinds and not (what is What.PARAMETER and What.START in kinds)
    limit = f" (limit {found.limit:.0e})" if passed else ""
    size = found.largest.get(what)
    return Check(name, passed, f"largest difference {size:.1e}{limit}" if size is not None else "")


def is_split(nproc: int, own: Totals, ranks: Sequence[Totals]) -> bool:
    """Whether no rank does much more than its share of the original's work."""
    most = max(record.work for record in ranks)
    return not own.work or nproc == 1 or most / own.work < (1 + 1 / nproc) / 2


def judge_work(comparison: Comparison, own: Totals, ranks: Sequence[Totals]) -> None:
    """The share of the original's work that each rank does: elements that meet parameters."""
    if not own.work or comparison.nproc == 1:
        return
    shares = [record.work / own.work for record in ranks]
    listed = " ".join(f"{share:.0%}" for share in shares) + " of the original's by rank"
    split = is_split(comparison.nproc, own, ranks)
    idle = sum(shares) < LEAST_WORK
    comparison.checks.append(Check("work divided", split and not idle, listed))
    if not split:
        rank = max(range(len(shares)), key=shares.__getitem__)
        text = f"the work is not split: rank {rank} does {shares[rank]:.0%} of the original's"
        found = Difference(What.WORK, text, size=shares[rank], rank=rank, cause=causes.NOT_SPLIT)
        comparison.differences.append(found)
    elif idle:
        text = f"the ranks together do {sum(shares):.0%} of the original's work"
        comparison.differences.append(Difference(What.WORK, text, cause=causes.IDLE))


def judge_devices(comparison: Comparison, ranks: Sequence[Totals]) -> None:
    """What would go wrong on GPUs alone: others' devices, and moves that the wrapper misses."""
    if moved := ranks[0].moved:
        how, at = moved[0]
        text = f"the model is {how} after it was wrapped"
        found = Difference(What.DEVICE, text, cause=causes.MOVED, at=at)
        comparison.differences.append(found)
    for rank, record in enumerate(ranks):
        others = {int(index) for index in record.devices} - {rank}
        if others:
            text = f"rank {rank} uses cuda:{min(others)}"
            found = Difference(What.DEVICE, text, rank=rank, cause=causes.DEVICE)
            comparison.differences.append(found)
            return
        if rank and "torch.load without map_location" in record.faked:
            text = f"rank {rank} loads a checkpoint without map_location"
            found = Difference(What.DEVICE, text, rank=rank, cause=causes.MAP_LOCATION)
            comparison.differences.append(found)
            return


def judge_collectives(comparison: Comparison, ranks: Sequence[Totals]) -> None:
    """Add the row, and the first place where the ranks' collectives do not match."""
    found = matching.first(ranks, ended=True)
    if found is not None:
        comparison.differences.append(found.difference())
    count = f"{len(ranks[0].collectives)} on rank 0"
    comparison.checks.append(Check("collectives", found is None, count))


def judge_printed(comparison: Comparison, found: TextFindings) -> None:
    """Add the row and the differences about printed lines."""
    comparison.checks.append(Check("printed lines", found.same, f"{found.lines}"))
    if found.wrong:
        own, other = found.wrong[0]
        text = f"prints {other!r}; original {own!r}"
        cause = _printed_cause(comparison, own, other)
        comparison.differences.append(Difference(What.PRINTED, text, name=own, cause=cause))
    if found.missing:
        text = f"does not print {found.missing[0]!r} ({len(found.missing)} such lines)"
        comparison.differences.append(Difference(What.PRINTED, text, name=found.missing[0]))
    if found.repeated:
        line, times = found.repeated[0]
        text = f"the line {line!r} comes {times} times ({len(found.repeated)} such lines)"
        twice = Difference(What.PRINTED, text, name=line, cause=causes.PRINTED_TWICE)
        comparison.differences.append(twice)
    extra = len(found.extra) - len(found.repeated)
    if extra > 0:
        comparison.notes.append(f"rank 0 prints {extra} lines that the original does not print")


def judge_files(comparison: Comparison, count: int, differences: list[Difference]) -> None:
    """Add the row and the differences about written files."""
    comparison.checks.append(Check("files written", not differences, f"{count}"))
    comparison.differences += differences


def _printed_cause(comparison: Comparison, own: str, other: str) -> Cause | None:
    """Why a printed number differs; nothing new where training itself does."""
    if any(item.what in ARITHMETIC for item in comparison.differences):
        return None
    if _is_share(own, other, comparison.nproc):
        return causes.DENOMINATOR
    return causes.PRINTED_NUMBER


def _is_share(own: str, other: str, nproc: int) -> bool:
    """Whether a number is one rank's part of a sum over all."""
    pairs = zip(prints.NUMBER.findall(own), prints.NUMBER.findall(other), strict=True)
    values = [(float(a), float(b)) for a, b in pairs if a != b]
    ratios = [b / a for a, b in values if a]
    return bool(ratios) and abs(ratios[0] * nproc - 1) < SHARE


def conclude(comparison: Comparison) -> None:
    """Set the verdict of a comparison whose runs ended well."""
    order = list(What)
    comparison.differences.sort(key=lambda item: order.index(item.what))
    if comparison.same_arithmetic is None and not comparison.unjudged:
        found = [item for item in comparison.differences if item.what in ARITHMETIC]
        comparison.same_arithmetic = not found
    named = [item.cause and item.cause.name for item in comparison.differences]
    if all(named):
        comparison.kind = Kind.EXCEPT if named else Kind.EQUIVALENT
    else:
        comparison.kind = Kind.NOT_EQUIVALENT
