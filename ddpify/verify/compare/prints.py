"""Comparison of printed output: the same lines, once, with the same numbers."""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x08")
_TIMES = re.compile(
    r"it/s|s/it|/s\b|/sec|elapsed|\beta\b|\btime\b|\btook\b|duration",
    re.IGNORECASE,
)
_UNIT = r"(?:ms|us|min|mins|minutes|h|hours|m|s|sec|secs|seconds|D)"
_DATE = r"\d{4}([-/.])\d\d\1\d\d"
_CLOCK = r"\d{1,2}(?::\d\d){1,2}"
_DURATION = re.compile(
    rf"(?<![\w.]){_DATE}(?:[T_ ]{_CLOCK}(?:[.,]\d+)?)?(?!\d)"
    rf"|(?<![\w.])(?:\d+(?:\.\d+)?\s?{_UNIT}\s?){{1,5}}(?!\w)"
    rf"|(?<![\w:]){_CLOCK}(?:\.\d+)?(?!\w|:\d)"
    r"|(?<![\w/])(?:ms|us|s|secs?|seconds|min)/[A-Za-z]+[\s:=]+\d+(?:\.\d+)?"
)
"""How long something took, in one or more units, or when it was."""
TOLERANCE = 1e-6
UNSTEADY = 1e-3
"""Relative difference between two runs of one script, of a number that is no result of it."""
MAX_LINES = 20_000


@dataclass
class TextFindings:
    """What a comparison of lines found.

    Attributes:
        lines: Lines of the original.
        wrong: Pairs (original, converted) of lines whose numbers differ.
        missing: Lines of the original that the converted run lacks.
        extra: Lines of the converted run without a counterpart.
        repeated: Lines that other ranks print too, with the number of times in all.
        elsewhere: Those of the missing ones that another rank prints.
    """

    lines: int = 0
    wrong: list[tuple[str, str]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    repeated: list[tuple[str, int]] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    @property
    def same(self) -> bool:
        """Whether all of the original is there once; extra lines are allowed."""
        return not (self.wrong or self.missing or self.repeated)


def split_lines(text: str) -> list[str]:
    """The lines of ``text`` that show something, as a terminal would show them."""
    plain = _CONTROL.sub("", text).replace("\r", "\n")
    return [line.strip() for line in plain.splitlines() if line.strip()][:MAX_LINES]


def compare(original: str, ranks: Sequence[str], noisy: str | None = None) -> TextFindings:
    """Compare the original's output with the ranks'.

    Rank 0 must print every line of the original; other ranks must not print it again. Numbers may
    differ in the last printed digit, relatively by 1e-6, and by ten times what they differ in
    ``noisy`` (the original run a second time with rounding-sized noise). Durations and points in
    time are left out, whether they are told by their form or by being others each time that the
    original runs; lines that speak of time in other ways are compared without numbers.
    """
    own, main = split_lines(original), split_lines(ranks[0])
    found = TextFindings(lines=len(own))
    again = split_lines(noisy) if noisy is not None else own
    if [_masked(line) for line in again] != [_masked(line) for line in own]:
        again = own
    matched = _matches(own, main)
    unsteady = _unsteady(own, again)
    for at, line in enumerate(own):
        if at not in matched:
            found.missing.append(line)
        elif not _same_numbers(line, main[matched[at]], again[at], unsteady):
            found.wrong.append((line, main[matched[at]]))
    used = set(matched.values())
    found.extra = [line for at, line in enumerate(main) if at not in used]
    others = _others(ranks)
    found.repeated = _repeated(own, [*found.extra, *others])
    masked = set(map(_masked, others))
    found.elsewhere = [line for line in found.missing if _masked(line) in masked]
    gone = set(map(_masked, found.elsewhere))
    found.repeated = [(line, count) for line, count in found.repeated if _masked(line) not in gone]
    return found


def _others(ranks: Sequence[str]) -> list[str]:
    return [line for text in ranks[1:] for line in split_lines(text)]


def _repeated(own: Sequence[str], others: Sequence[str]) -> list[tuple[str, int]]:
    counts = Counter(map(_masked, own))
    again = Counter(_masked(line) for line in others)
    first = {_masked(line): line for line in reversed(own)}
    return [(first[mask], again[mask] + counts[mask]) for mask in counts if again[mask]]


def numbers(line: str) -> list[str]:
    """The numbers in ``line`` that are no durations or points in time."""
    return NUMBER.findall(_DURATION.sub("", line))


def _masked(line: str) -> str:
    """``line`` with its numbers hidden and its spaces, which follow a number's width, made one."""
    return re.sub(r"\s+", " ", NUMBER.sub("#", _DURATION.sub(" <time> ", line)))


def _matches(own: Sequence[str], other: Sequence[str]) -> dict[int, int]:
    """Index in ``other`` of each line of ``own`` that it has, numbers aside."""
    a, b = [_masked(line) for line in own], [_masked(line) for line in other]
    if a == b:
        return {at: at for at in range(len(a))}
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=len(a) > 2000)
    blocks = matcher.get_matching_blocks()
    return {i + k: j + k for i, j, size in blocks for k in range(size)}


Column = tuple[str, int]
"""A kind of line, numbers aside, and a number's place in it."""


def _unsteady(own: Sequence[str], again: Sequence[str]) -> set[Column]:
    """The columns that are mostly others in a second run of the same script."""
    total: Counter[Column] = Counter()
    other: Counter[Column] = Counter()
    for line, second in zip(own, again, strict=True):
        for place, (a, b) in enumerate(zip(numbers(line), numbers(second), strict=True)):
            column = (_masked(line), place)
            total[column] += 1
            other[column] += not math.isclose(float(a), float(b), rel_tol=UNSTEADY)
    return {column for column, times in other.items() if 2 * times > total[column]}


def _same_numbers(line: str, other: str, again: str, unsteady: set[Column]) -> bool:
    if line == other or _TIMES.search(_DURATION.sub("", line)):
        return True
    mask = _masked(line)
    triples = zip(numbers(line), numbers(other), numbers(again), strict=True)
    return all(
        _close(*triple) for place, triple in enumerate(triples) if (mask, place) not in unsteady
    )


def _close(text: str, other: str, again: str) -> bool:
    a, b, noise = float(text), float(other), abs(float(text) - float(again))
    digits = len(text.partition(".")[2])
    last = 0.0 if "." not in text else 1.01 * 10.0**-digits
    if "e" in text.lower():
        last = 1e-4 * abs(a)
    return abs(a - b) <= last + TOLERANCE * max(abs(a), abs(b)) * ("." in text) + 10 * noise
