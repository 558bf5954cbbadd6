"""The answer of ``verify``."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Kind(str, Enum):
    """What was found, from best to worst."""

    EQUIVALENT = "equivalent"
    VACUOUS = "vacuous"
    NOT_EQUIVALENT = "not equivalent"
    COULD_NOT_RUN = "could not run"


EXIT_CODES = {
    Kind.EQUIVALENT: 0,
    Kind.NOT_EQUIVALENT: 1,
    Kind.VACUOUS: 1,
    Kind.COULD_NOT_RUN: 2,
}


class What(str, Enum):
    """What a difference is in, in causal order."""

    HANG = "hang"
    START = "initial parameters"
    STEPS = "optimizer steps"
    BETWEEN = "parameter between steps"
    DATA = "data"
    LOSS = "loss"
    GRADIENT = "gradient"
    LEARNING_RATE = "learning rate"
    PARAMETER = "parameter"
    WORK = "share of the work"
    PRINTED = "printed output"
    FILE = "files"


@dataclass(frozen=True)
class Cause:
    """A suspected cause.

    Attributes:
        text: What is probably wrong.
        remedy: What to do.
        rules: Codes of the rules that describe it.
    """

    text: str
    remedy: str
    rules: tuple[str, ...] = ()


@dataclass(frozen=True)
class Difference:
    """One departure of the converted script from the original.

    Attributes:
        what: What differs.
        text: The difference in a sentence.
        step: 1-based optimizer step.
        name: Parameter, file or line that differs.
        size: Relative size.
        limit: The size that would have passed.
        rank: The rank on which it shows, where it is one.
        cause: What is probably behind it.
    """

    what: What
    text: str
    step: int | None = None
    name: str | None = None
    size: float | None = None
    limit: float | None = None
    rank: int | None = None
    cause: Cause | None = None


@dataclass(frozen=True)
class Check:
    """One row of the table: what was compared, whether it passed (None: not comparable), a
    remark."""

    what: str
    passed: bool | None
    remark: str = ""


@dataclass
class Comparison:
    """Original against converted at one number of processes.

    Attributes:
        nproc: Number of processes of the converted run.
        kind: Its verdict.
        checks: Rows of the table.
        differences: In causal order; the first one is what to look at.
        failure: For ``COULD_NOT_RUN``: what happened, with the end of the traceback.
        notes: Remarks that change no verdict.
        faked: Calls answered by something else than the real thing in the converted run.
    """

    nproc: int
    kind: Kind
    checks: list[Check] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    failure: str | None = None
    notes: list[str] = field(default_factory=list)
    faked: dict[str, int] = field(default_factory=dict)


@dataclass
class Verdict:
    """Everything ``verify`` found.

    Attributes:
        original: The original script as it was named.
        converted: The converted script as it was named.
        comparisons: One for each number of processes that was run.
        kind: The worst of them, or the original's own trouble.
        failure: Why the original could not run, or why the comparison says nothing.
        steps: Optimizer steps of the original.
        faked: Calls answered by something else than the real thing in the original run.
        notes: Remarks on the original run.
        torch: The version of torch.
        seconds: Wall time of everything.
    """

    original: str
    converted: str
    comparisons: list[Comparison] = field(default_factory=list)
    kind: Kind = Kind.EQUIVALENT
    failure: str | None = None
    steps: int = 0
    faked: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    torch: str = ""
    seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """0 equivalent, 1 not equivalent or vacuous, 2 could not run."""
        return EXIT_CODES[self.kind]


def worst(kinds: list[Kind]) -> Kind:
    """The worst of ``kinds``; equivalent for none."""
    return max(kinds, key=list(Kind).index, default=Kind.EQUIVALENT)
