"""Plant bugs in ports written by hand, and right variants beside them; print what verify says.

    python -m benchmarks.by_hand_bugs [REGEX]

Each row of ``CASES`` (benchmarks/by_hand/cases.py) edits a right port in benchmarks/by_hand. A bug
must be refused, and its first difference must have one of the rules that are named, or say the
words that are; differences that a person may allow are passed over where there are others. A
right variant (no rule and no words) must be equivalent, but for the causes that it names. REGEX
picks cases by their port and name.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.by_hand.case import Case, Edit
from benchmarks.by_hand.cases import CASES
from ddpify.verify import Difference, Kind, Verdict, verify, warm_worker
from ddpify.verify.launch.launcher import Worker

PORTS = Path(__file__).parent / "by_hand"
RIGHT = ("variant equivalent", "cause right")


def main(pattern: str) -> None:
    """Print a line for each case that ``pattern`` picks, and the totals."""
    totals: Counter[str] = Counter()
    for port, cases in CASES.items():
        script = PORTS / f"{port}.py"
        with warm_worker(script.read_text()) as worker:
            for case in cases:
                if not re.search(pattern, f"{port}: {case.name}"):
                    continue
                start = time.monotonic()
                verdict = planted(port, case, worker)
                answers = judged(case, verdict, frozenset(cases[0].allowed))
                totals.update(answers)
                marked = "right" if answers[-1] in RIGHT else "WRONG"
                took = time.monotonic() - start
                print(f"{marked} {took:5.1f} s  {port}: {case.name}: {said(verdict)}", flush=True)
    print(", ".join(f"{count} {what}" for what, count in totals.items()))


def planted(port: str, case: Case, worker: Worker) -> Verdict:
    """The verdict on the port with the case's edits, at 2 processes."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in (f"{port}.py", f"{port}_ddp.py")]
        for path, edits in zip(paths, (case.both, case.both + case.edits), strict=True):
            path.write_text(edited((PORTS / path.name).read_text(), edits))
        return verify(*paths, worker=worker, stall=3.0)


def edited(source: str, edits: tuple[Edit, ...]) -> str:
    """``source`` with each edit made; raises ValueError where its text is not there once."""
    for old, new in edits:
        if source.count(old) != 1:
            raise ValueError(f"{source.count(old)} places for {old!r}")
        source = source.replace(old, new)
    return source


def judged(case: Case, verdict: Verdict, usual: frozenset[str] = frozenset()) -> list[str]:
    """What the totals count for a case, the answer about its cause or variant last.

    ``usual``: causes that the port without a bug is named to differ in, by name.
    """
    if not case.is_bug:
        names = {cause.name for cause in verdict.named}
        kind = Kind.EXCEPT if case.allowed else Kind.EQUIVALENT
        fits = verdict.kind is kind and names == set(case.allowed)
        return ["variants", "variant equivalent" if fits else "variant refused"]
    allowed = {cause.name for cause in verdict.named}
    caught = verdict.kind is Kind.NOT_EQUIVALENT or bool(allowed - usual)
    found = _first(verdict)
    suspected = [found.cause] if found and found.cause else []
    if verdict.kind is Kind.EXCEPT:
        suspected = [cause for cause in verdict.named if cause.name not in usual]
    named = bool(case.words and re.search(case.words, said(verdict), re.IGNORECASE))
    ruled = any(cause.rules and cause.rules[0] in case.rules for cause in suspected)
    right = caught and (ruled or named)
    return ["bugs", *(["caught"] if caught else []), "cause right" if right else "cause wrong"]


def said(verdict: Verdict) -> str:
    """The verdict, its first difference and the suspected cause, in one line."""
    found = _first(verdict)
    if found is None:
        failures = [verdict.failure, *(one.failure for one in verdict.comparisons)]
        last = [failure.splitlines()[-1] for failure in failures if failure]
        return " | ".join([verdict.kind.value, *last])
    cause = [f"{' '.join(found.cause.rules)} {found.cause.text}"] if found.cause else []
    return " | ".join([verdict.kind.value, found.text, *cause])


def _first(verdict: Verdict) -> Difference | None:
    found = [item for one in verdict.comparisons for item in one.differences]
    hard = [item for item in found if not (item.cause and item.cause.name)]
    return next(iter(hard or found), None)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
