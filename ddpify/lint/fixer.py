"""Applies fixes: those that do not overlap, then again on the result, until nothing is left."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ddpify.lint.diagnostics import Applicability, Diagnostic, Edit, Fix

_MOST_ROUNDS = 20

Check = Callable[[str], list[Diagnostic]]


def apply(text: str, fixes: Iterable[Fix]) -> tuple[str, int]:
    """The text after the fixes, first come first served, and how many were applied."""
    edits, count = chosen(fixes)
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text, count


def chosen(fixes: Iterable[Fix]) -> tuple[list[Edit], int]:
    """The edits of the fixes that do not overlap, first come first served, and how many fixes."""
    edits: list[Edit] = []
    count = 0
    for fix in fixes:
        if any(_overlap(edit, other) for edit in fix.edits for other in edits):
            continue
        edits += [edit for edit in fix.edits if edit not in edits]
        count += 1
    return edits, count


def _overlap(one: Edit, other: Edit) -> bool:
    if one == other:
        return False  # two findings that need the same edit, such as an import
    if one.start == one.end and other.start == other.end:
        return one.start == other.start
    return one.start < other.end and other.start < one.end


def fix_until_stable(
    text: str, check: Check, *, unsafe: bool, compiles: Callable[[str], bool]
) -> tuple[str, int]:
    """Fix, lint again, and so on; what would break the syntax is left out."""
    least = Applicability.UNSAFE if unsafe else Applicability.SAFE
    total = 0
    for _ in range(_MOST_ROUNDS):
        fixes = [d.fix for d in check(text) if d.fix and d.fix.applicability >= least]
        fixed, count = apply(text, fixes)
        if not compiles(fixed):
            fixed, count = apply(text, [one for one in fixes if compiles(apply(text, [one])[0])])
        if not count or fixed == text or not compiles(fixed):
            break
        text, total = fixed, total + count
    return text, total
