"""Two texts side by side, what is equal folded."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Sequence
from html import escape

CONTEXT = 3
MAX_FOLDED = 120_000
"""Characters of unchanged text up to which it is kept, folded; beyond, it is left out."""

_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
_EMPTY = '<td class="n"></td>'
Row = tuple[int | None, str, int | None, str]


def table(own: str, other: str, suspected: Collection[int] = ()) -> str:
    """The lines of ``own`` and ``other`` as HTML, paired; changed parts of lines are marked.

    ``suspected``: numbers of lines of ``other`` that are pointed out, and never folded.
    """
    a, b = own.splitlines(), other.splitlines()
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=False)
    keep = len(own) + len(other) <= MAX_FOLDED
    parts = []
    codes = matcher.get_opcodes()
    for tag, i, j, k, m in codes:
        if tag == "equal":
            first, last = codes[0][1] == i, codes[-1][2] == j
            opened = any(k < line <= m for line in suspected)
            part = _equal(a[i:j], i, k, keep=keep, first=first, last=last, opened=opened)
        else:
            part = _table(_changed(a[i:j], i, b[k:m], k), tag)
        parts.append(part)
    text = "".join(parts)
    for line in suspected:
        text = text.replace(_cell(line), f'<td class="n suspect" title="suspected">{line}</td>', 1)
    return text


def _cell(number: int) -> str:
    """The number of a line of the second script."""
    return f'<td class="n" data-other>{number}</td>'


def _equal(
    lines: Sequence[str],
    i: int,
    k: int,
    *,
    keep: bool,
    first: bool,
    last: bool,
    opened: bool,
) -> str:
    """Unchanged lines: those next to a change are shown, those in between are folded."""
    rows: list[Row] = [
        (i + at + 1, escape(line), k + at + 1, escape(line)) for at, line in enumerate(lines)
    ]
    head = 0 if first else CONTEXT
    tail = 0 if last else CONTEXT
    if opened or len(rows) <= head + tail + 1:
        return _table(rows, "equal")
    middle = rows[head : len(rows) - tail]
    label = f"{len(middle)} unchanged lines"
    folded = f'<p class="gap">{label}</p>'
    if keep:
        folded = f"<details><summary>{label}</summary>{_table(middle, 'equal')}</details>"
    shown_after = rows[len(rows) - tail :] if tail else []
    return _table(rows[:head], "equal") + folded + _table(shown_after, "equal")


def _changed(own: Sequence[str], i: int, other: Sequence[str], k: int) -> Iterator[Row]:
    for at in range(max(len(own), len(other))):
        left = own[at] if at < len(own) else None
        right = other[at] if at < len(other) else None
        if left is not None and right is not None:
            before, after = _marked(left, right)
        else:
            before, after = escape(left or ""), escape(right or "")
        yield (
            i + at + 1 if left is not None else None,
            before,
            k + at + 1 if right is not None else None,
            after,
        )


def _marked(a: str, b: str) -> tuple[str, str]:
    """Two lines with what is not common to them marked, if they have much in common."""
    own, other = _TOKEN.findall(a), _TOKEN.findall(b)
    matcher = difflib.SequenceMatcher(None, own, other, autojunk=False)
    if matcher.ratio() < 0.5:
        return escape(a), escape(b)
    left, right = "", ""
    for tag, i, j, k, m in matcher.get_opcodes():
        before, after = escape("".join(own[i:j])), escape("".join(other[k:m]))
        if tag != "equal":
            before = f"<mark>{before}</mark>" if before else ""
            after = f"<mark>{after}</mark>" if after else ""
        left, right = left + before, right + after
    return left, right


def _table(rows: Iterator[Row] | Sequence[Row], tag: str) -> str:
    body = "".join(
        f'<tr><td class="n">{_number(i)}</td><td class="{_side(i, tag, "old")}">{left}</td>'
        f'{_cell(k) if k else _EMPTY}<td class="{_side(k, tag, "new")}">{right}</td></tr>'
        for i, left, k, right in rows
    )
    return f'<table class="code">{body}</table>' if body else ""


def _number(at: int | None) -> str:
    return "" if at is None else str(at)


def _side(at: int | None, tag: str, changed: str) -> str:
    if at is None:
        return "none"
    return "same" if tag == "equal" else changed
