"""What ``check`` finds."""

from __future__ import annotations

from dataclasses import dataclass, field

from ddpify.verify.verdict import Cause


@dataclass(frozen=True)
class Finding:
    """One error that happened in the run, or might have.

    Attributes:
        code: The lint rule whose pitfall it is.
        message: What the ranks did, in a sentence.
        remedy: What to do.
        at: The script's line, as ``file.py:12``; empty where none is known.
        step: 1-based optimizer step; None where it belongs to none.
        ranks: The ranks concerned.
        certainty: "seen" if it happened in the run, "possible" if it did not this time.
    """

    code: str
    message: str
    remedy: str
    at: str = ""
    step: int | None = None
    ranks: tuple[int, ...] = ()
    certainty: str = "seen"

    @property
    def path(self) -> str:
        """The file that holds the line; empty where none is known."""
        return self.at.rpartition(":")[0]

    @property
    def line(self) -> int | None:
        """The 1-based line; None where none is known."""
        number = self.at.rpartition(":")[2]
        return int(number) if number else None


def finding(
    cause: Cause,
    seen: str = "",
    at: str = "",
    step: int | None = None,
    ranks: tuple[int, ...] = (),
    certainty: str = "seen",
) -> Finding:
    """The finding of a known cause; ``seen`` is what the ranks did, said after the cause."""
    message = f"{cause.text}: {seen}" if seen else cause.text
    return Finding(cause.rules[0], message, cause.remedy, at, step, ranks, certainty)


@dataclass
class Report:
    """Everything about one run.

    Attributes:
        script: The script as it was named.
        nproc: Number of processes.
        findings: What was found and not silenced.
        silenced: Findings that a comment at their line silenced.
        failure: Why the script could not be judged; None if it was.
        steps: Optimizer steps of each rank.
        notes: Remarks that are no findings.
        seconds: Wall time.
    """

    script: str
    nproc: int
    findings: list[Finding] = field(default_factory=list)
    silenced: list[Finding] = field(default_factory=list)
    failure: str | None = None
    steps: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """0 nothing found, 1 findings, 2 the script could not be judged."""
        if self.findings:
            return 1
        return 0 if self.failure is None else 2
