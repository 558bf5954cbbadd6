"""What is printed and written."""

from __future__ import annotations

from dataclasses import replace

from ddpify.verify.compare import causes, prints
from ddpify.verify.compare.prints import TextFindings
from ddpify.verify.judge.arithmetic import ARITHMETIC
from ddpify.verify.verdict import Cause, Check, Comparison, Difference, What

SHARE = 0.25
"""How far a printed number may be from one rank's share of the original's, to be called so."""


def printed(comparison: Comparison, found: TextFindings, others_apart: str = "") -> None:
    """Add the row and the differences about printed lines.

    ``others_apart``: a tensor of a model outside of the optimizer that differs between the ranks.
    """
    comparison.checks.append(Check("printed lines", found.same, f"{found.lines}"))
    if found.wrong:
        own, other = found.wrong[0]
        text = f"prints {other!r}; original {own!r}"
        cause = _printed_cause(comparison, own, other)
        if others_apart and cause is not None:
            text_ = f"{others_apart}, which no optimizer holds, differs between the ranks"
            cause = replace(causes.OUTSIDE, text=text_)
        comparison.differences.append(Difference(What.PRINTED, text, name=own, cause=cause))
    if found.missing:
        text = f"does not print {found.missing[0]!r} ({len(found.missing)} such lines)"
        cause_ = causes.OTHER_RANK_PRINTS if found.elsewhere else None
        line = found.missing[0]
        comparison.differences.append(Difference(What.PRINTED, text, name=line, cause=cause_))
    if found.repeated:
        line, times = found.repeated[0]
        text = f"the line {line!r} comes {times} times ({len(found.repeated)} such lines)"
        twice = Difference(What.PRINTED, text, name=line, cause=causes.PRINTED_TWICE)
        comparison.differences.append(twice)
    extra = len(found.extra) - len(found.repeated)
    if extra > 0:
        comparison.notes.append(f"rank 0 prints {extra} lines that the original does not print")


def files(
    comparison: Comparison, count: int, differences: list[Difference], settings: str = ""
) -> None:
    """Add the row and the differences about written files.

    ``settings``: a setting of the model that is not the original's, in words.
    """
    if settings:
        cause = replace(causes.SETTING, text=f"the model is another: {settings}")
        differences = [item if item.cause else replace(item, cause=cause) for item in differences]
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
    """Whether a number, a quotient as it seems, is one rank's part of a sum over all."""
    pairs = zip(prints.numbers(own), prints.numbers(other), strict=True)
    values = [(float(a), float(b)) for a, b in pairs if a != b and "." in a]
    ratios = [b / a for a, b in values if a]
    return bool(ratios) and abs(ratios[0] * nproc - 1) < SHARE
