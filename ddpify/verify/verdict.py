"""The answer of ``verify``."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Kind(str, Enum):
    """What was found, from best to worst."""

    EQUIVALENT = "equivalent"
    EXCEPT = "equivalent except"
    VACUOUS = "vacuous"
    NOT_EQUIVALENT = "not equivalent"
    COULD_NOT_RUN = "could not run"


EXIT_CODES = {
    Kind.EQUIVALENT: 0,
    Kind.EXCEPT: 1,
    Kind.NOT_EQUIVALENT: 1,
    Kind.VACUOUS: 1,
    Kind.COULD_NOT_RUN: 2,
}


class What(str, Enum):
    """What a difference is in, in causal order."""

    HANG = "hang"
    FAILURE = "failure"
    COLLECTIVE = "collectives"
    DATA = "data"
    START = "initial parameters"
    STEPS = "optimizer steps"
    BETWEEN = "parameter between steps"
    LOSS = "loss"
    GRADIENT = "gradient"
    LEARNING_RATE = "learning rate"
    PARAMETER = "parameter"
    BUFFER = "buffer"
    DEVICE = "device"
    WORK = "share of the work"
    PRINTED = "printed output"
    FILE = "files"


@dataclass(frozen=True)
class Cause:
    """A suspected cause.

    Attributes:
        text: What is probably wrong.
        remedy: What to do.
        rules: Codes of the rules that describe it, the likeliest first.
        name: A short name where a person may accept the cause (``--allow``); else empty.
    """

    text: str
    remedy: str
    rules: tuple[str, ...] = ()
    name: str = ""


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
        at: The converted script's line that it belongs to, as ``file.py:12``.
    """

    what: What
    text: str
    step: int | None = None
    name: str | None = None
    size: float | None = None
    limit: float | None = None
    rank: int | None = None
    cause: Cause | None = None
    at: str = ""


@dataclass(frozen=True)
class Check:
    """One row of the table: what was compared, whether it passed (None: not comparable), a
    remark."""

    what: str
    passed: bool | None
    remark: str = ""


@dataclass(frozen=True)
class Coverage:
    """The samples of one pass over a loader that is trained on.

    Attributes:
        samples: Samples of the original's pass.
        missing: Those that no rank had.
        extra: Samples beyond the original's: repeated ones, or others.
        by_rank: Different samples that each rank had.
        everywhere: Whether every rank had all of them.
    """

    samples: int
    missing: int
    extra: int
    by_rank: list[int]
    everywhere: bool


@dataclass
class Series:
    """What the report draws, a value for each step.

    Attributes:
        names: The parameters that are shown.
        original: Loss of the original.
        converted: Loss of the converted script, the mean over its ranks.
        reference: Loss of the original on the converted script's batches; empty where it was not
            needed.
        divergence: For each parameter, its relative difference after each step.
        limit: The difference that would have passed.
    """

    names: list[str] = field(default_factory=list)
    original: list[float | None] = field(default_factory=list)
    converted: list[float | None] = field(default_factory=list)
    reference: list[float | None] = field(default_factory=list)
    divergence: list[list[float | None]] = field(default_factory=list)
    limit: float = 0.0


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
        same_data: Whether the ranks together train on the original's batches; None: unknown.
        seen: What says so, where it is not the rows that enter the model.
        same_arithmetic: Whether they compute with them what one process does; None: unknown.
        replayed: Whether the arithmetic was compared with the original on the converted run's
            batches.
        unjudged: Why the arithmetic could not be compared; empty where it was.
        coverage: Samples of each pass over the loaders.
        series: What the report draws.
    """

    nproc: int
    kind: Kind
    same_data: bool | None = None
    seen: str = ""
    same_arithmetic: bool | None = None
    replayed: bool = False
    unjudged: str = ""
    coverage: list[Coverage] = field(default_factory=list)
    series: Series | None = None
    checks: list[Check] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    failure: str | None = None
    notes: list[str] = field(default_factory=list)
    faked: dict[str, int] = field(default_factory=dict)

    @property
    def leading(self) -> list[Difference]:
        """The first difference that nobody may accept, in a list; none if there is none."""
        return [item for item in self.differences if not _named(item)][:1]

    @property
    def acceptable(self) -> list[Difference]:
        """The differences that a person may accept, by the names of their causes."""
        return [item for item in self.differences if _named(item)]

    @property
    def following(self) -> list[Difference]:
        """The other differences, which probably follow from the leading one."""
        return [item for item in self.differences if not _named(item)][1:]


def _named(found: Difference) -> bool:
    return bool(found.cause and found.cause.name)


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
        device: What the scripts ran on: "cpu" or "cuda".
        seconds: Wall time of everything.
        allowed: Names of causes that were accepted beforehand.
        sources: Name and text of the original and of the converted script.
        command: What repeats the run, for a shell.
        date: When it began, in ISO 8601.
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
    device: str = "cpu"
    seconds: float = 0.0
    allowed: frozenset[str] = frozenset()
    sources: tuple[tuple[str, str], ...] = ()
    command: str = ""
    date: str = ""

    @property
    def named(self) -> list[Cause]:
        """The causes that an equivalence is except for, each once."""
        found = [item.cause for one in self.comparisons for item in one.differences if item.cause]
        return list({cause.name: cause for cause in found if cause.name}.values())

    @property
    def exit_code(self) -> int:
        """0 equivalent, or except for allowed causes; 1 not equivalent or vacuous; 2 not run."""
        allowed = {cause.name for cause in self.named} <= self.allowed
        return 0 if self.kind is Kind.EXCEPT and allowed else EXIT_CODES[self.kind]


def worst(kinds: list[Kind]) -> Kind:
    """The worst of ``kinds``; equivalent for none."""
    return max(kinds, key=list(Kind).index, default=Kind.EQUIVALENT)
