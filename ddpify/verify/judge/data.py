"""The first question: same data?"""

from __future__ import annotations

from dataclasses import replace

from ddpify.verify.compare import causes
from ddpify.verify.compare.data import DataFindings
from ddpify.verify.compare.evidence import RowComparison
from ddpify.verify.compare.steps import StepFindings
from ddpify.verify.verdict import Cause, Check, Comparison, Difference, What


def judge(comparison: Comparison, found: StepFindings, ids: DataFindings, *, split: bool) -> None:
    """Answer whether the ranks train on the original's batches, and add the difference if not.

    The rows that enter the model decide where they can be compared, as a script may slice its
    batches after it has loaded them; the samples' indices say how they differ. Where neither can be
    compared, the gradients of all steps answer, if they are the original's.
    """
    comparison.coverage = ids.coverage
    text, cause, step = "", None, found.rows_differ
    complete = found.rows_compared and not found.differences
    if ids.everywhere and not split:
        text = "each rank trains on all samples of a batch"
        cause = causes.NOT_SPLIT_STREAM if ids.stream else causes.NOT_SPLIT
    elif ids.everywhere and found.rows is not None and found.rows.everywhere:
        text, cause = "every rank trains on the same part of the samples", causes.LOST
    elif found.rows is not None:
        text, cause = _row_answer(found.rows, ids)
    elif ids.cause is not None and not complete:
        text, cause = ids.text, ids.cause
    comparison.same_data, comparison.seen = cause is None, ""
    if not found.rows_compared and ids.compared:
        comparison.seen = "by the samples' indices"
    elif not found.rows_compared:
        alike = found.gradient and not found.differences
        comparison.same_data = True if alike else None
        comparison.seen = "by the gradients of every step" if alike else ""
    if cause is not None:
        found_ = Difference(What.DATA, text, step, cause=cause)
        comparison.differences.append(found_)
        if cause is causes.PADDING and ids.reordered:
            other = "the same samples come in other batches"
            comparison.differences.append(Difference(What.DATA, other, step, cause=causes.ORDER))
    comparison.checks.append(_data_check(comparison, ids, cause))


def _row_answer(rows: RowComparison, ids: DataFindings) -> tuple[str, Cause]:
    if rows.everywhere:
        return "each rank trains on the same rows", causes.SAME_BATCHES
    if ids.cause is not None:
        return ids.text, ids.cause
    if not ids.compared:
        return _row_text(rows), causes.OWN_BATCHES
    if rows.missing and rows.extra >= rows.missing:
        return _row_text(rows), causes.CHANGED_ROWS
    return _row_text(rows), causes.LOST if rows.missing else causes.DOUBLED


def _row_text(rows: RowComparison) -> str:
    text = f"of {rows.total} rows that enter the model, {rows.missing} reach no rank"
    return text + (f" and {rows.extra} are not the original's or come twice" if rows.extra else "")


def mistrust_indices(comparison: Comparison, rows: RowComparison | None) -> None:
    """Let the rows that enter the model say how the data differ: what the loaders yield does not
    explain them."""
    for at, item in enumerate(comparison.differences):
        if item.what is What.DATA and item.cause and item.cause.name and rows is not None:
            comparison.differences[at] = replace(
                item, text=_row_text(rows), cause=causes.OWN_BATCHES
            )


def _data_check(comparison: Comparison, ids: DataFindings, cause: Cause | None) -> Check:
    if comparison.same_data is None:
        return Check("samples in each batch", None, "not comparable")
    total = sum(item.samples for item in ids.coverage)
    remark = f"{total} samples in {len(ids.coverage)} passes" if ids.coverage else ""
    return Check("samples in each batch", cause is None, remark)
