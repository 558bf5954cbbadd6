"""What a rule reports: a place, one sentence, and the edits that would fix it."""

from __future__ import annotations

from dataclasses import field, replace
from enum import IntEnum
from typing import NamedTuple

from ddpify.records import record


class Applicability(IntEnum):
    """How far a fix can be trusted.

    UNSAFE: likely right, but it may change what the script does (applied with ``--unsafe-fixes``).
    SAFE: keeps what the script means (applied with ``--fix``).
    """

    UNSAFE = 1
    SAFE = 2


class Severity(IntEnum):
    """What happens to the training, the worst last."""

    STYLE = 0
    SLOW = 1
    CRASH = 2
    HANG = 3
    SILENT = 4

    @property
    def word(self) -> str:
        """As in ``silent-wrong``."""
        return {"SILENT": "silent-wrong"}.get(self.name, self.name.lower())


class Confidence(IntEnum):
    """How sure it is that a finding is right.

    CERTAIN: all that it rests on is in sight.
    LIKELY: something between is not seen, and this is how scripts of this kind are.
    POSSIBLE: it takes an assumption that often does not hold (shown with ``--strict``).
    """

    POSSIBLE = 1
    LIKELY = 2
    CERTAIN = 3

    @property
    def word(self) -> str:
        """As in ``likely``."""
        return self.name.lower()


class Edit(NamedTuple):
    """Replace the characters from ``start`` up to ``end`` of the file's text."""

    start: int
    end: int
    text: str


@record
class Fix:
    """Edits that belong together, and what they do in words."""

    title: str
    edits: tuple[Edit, ...]
    applicability: Applicability = Applicability.SAFE


class Span(NamedTuple):
    """A stretch of a file: lines from 1, columns from 1; ``end_column`` is one past the last."""

    line: int
    column: int
    end_line: int
    end_column: int


@record
class Diagnostic:
    """One finding.

    ``single`` marks what is no error yet: the script runs in one process, and this is what
    `ddpify convert` takes care of. ``cell`` is the 1-based cell of a notebook. ``about`` are the
    files and lines of the places themselves, where this is a call that leads to them.
    """

    path: str
    span: Span
    code: str
    name: str
    message: str = field(compare=False)
    severity: Severity = field(compare=False, default=Severity.SILENT)
    confidence: Confidence = field(compare=False, default=Confidence.CERTAIN)
    single: bool = field(compare=False, default=False)
    fix: Fix | None = field(compare=False, default=None)
    cell: int | None = None
    about: tuple[tuple[str, int], ...] = field(compare=False, default=())

    @property
    def subject(self) -> tuple[object, ...]:
        """What is said once: of a place, or of one of the things that are done there."""
        return (self.code, self.span, self.message if self.single else None)

    @property
    def sentence(self) -> str:
        """The message where it stands alone: no error yet is said to be none."""
        return f"for several processes: {self.message}" if self.single else self.message

    @property
    def grade(self) -> str:
        """What happens and how sure that is: ``hang, likely``. Convert's points have none."""
        return "" if self.single else f"{self.severity.word}, {self.confidence.word}"

    @property
    def graded(self) -> str:
        """The message with its grade, on one line."""
        return f"{self.sentence} ({self.grade})" if self.grade else self.sentence

    @property
    def fixable(self) -> bool:
        """Whether any option applies its fix."""
        return self.fix is not None

    def without_fix(self) -> Diagnostic:
        """The same finding, for a reader alone."""
        return replace(self, fix=None)


def likely_at_most(one: Diagnostic) -> Diagnostic:
    """The same finding, where a part of what it rests on was not looked at."""
    return replace(one, confidence=min(one.confidence, Confidence.LIKELY))


def by_place(one: Diagnostic) -> tuple[str, int, Span, str, str]:
    """What findings are sorted by."""
    return one.path, one.cell or 0, one.span, one.code, one.name
