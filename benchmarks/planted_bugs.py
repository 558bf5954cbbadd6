"""Plant the bugs of the tests in a script of your own, and print what verify says about each.

    python -m benchmarks.planted_bugs SCRIPT [NAME=VALUE ...] [-- script arguments]

SCRIPT trains one model with one optimizer in a loop over a loader, for three passes or more. The
names say what it calls things, where that is not as in PyTorch's MNIST example (``Names`` in
tests/verify/planting.py): ``model=net loader=trainloader``. ``skip=REGEX`` leaves bugs out by their
names: those that are none in this script, such as a missing set_epoch in a script of one pass.
``only=REGEX`` plants those alone. Bugs whose place the script lacks are left out and counted.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from ddpify.convert import convert_file
from ddpify.errors import DdpifyError
from ddpify.verify import Kind, Verdict, verify, warm_worker
from ddpify.verify.launch.launcher import Worker
from tests.verify.bugs import BUGS
from tests.verify.planting import Bug, Names, NotApplicable, plant, plant_converted

CAUGHT = (Kind.NOT_EQUIVALENT, Kind.EXCEPT)
QUESTIONS = ("caught", "first difference right", "cause right")


def main(script: Path, options: dict[str, str], args: list[str]) -> None:
    """Print a line for each bug, and the totals."""
    skip, only = options.pop("skip", "(?!)"), options.pop("only", "")
    names = Names(**options)
    bugs = [bug for bug in BUGS if re.search(only, bug.name) and not re.search(skip, bug.name)]
    totals: Counter[str] = Counter()
    with warm_worker(script.read_text()) as worker:
        for bug in bugs:
            start = time.monotonic()
            try:
                answers, text = judged(bug, planted(bug, script, names, worker, args))
            except NotApplicable:
                totals["not applicable"] += 1
                continue
            except DdpifyError as error:
                answers, text = [False] * 3, str(error).splitlines()[0]
            totals.update(
                ["planted", *(q for q, yes in zip(QUESTIONS, answers, strict=True) if yes)]
            )
            word = "right" if all(answers) else "WRONG"
            print(f"{word} {time.monotonic() - start:5.1f} s  {bug.name}: {text}", flush=True)
    print(", ".join(f"{totals[key]} {key}" for key in ("planted", *QUESTIONS, "not applicable")))


def planted(bug: Bug, script: Path, names: Names, worker: Worker, args: list[str]) -> Verdict:
    """The verdict on a copy of the script's folder with the bug."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "planted"
        shutil.copytree(script.parent, copy)
        original, converted = copy / script.name, copy / "planted_ddp.py"
        source = plant(script.read_text(), bug.before, names)
        original.write_text(source)
        text = convert_file(original).data.decode()
        original.write_text(plant(source, bug.both, names))
        converted.write_text(plant_converted(text, bug, names))
        return verify(original, converted, worker=worker, stall=3.0, script_args=args)


def judged(bug: Bug, verdict: Verdict) -> tuple[list[bool], str]:
    """Whether the bug is caught, the first difference right and the cause right; in words."""
    comparison = verdict.comparisons[0] if verdict.comparisons else None
    if bug.note:
        notes = comparison.notes if comparison else []
        found = any(bug.rule in note for note in notes)
        return [found] * 3, verdict.kind.value
    if comparison is None or not comparison.differences:
        return [False] * 3, _why_not(verdict)
    first = comparison.differences[0]
    rules = first.cause.rules if first.cause else ()
    right = not bug.rule or rules[:1] == (bug.rule,)
    text = f"{verdict.kind.value}; {first.what.value}; {' '.join(rules)}"
    return [verdict.kind in CAUGHT, first.what in bug.what, right], text


def _why_not(verdict: Verdict) -> str:
    failures = [verdict.failure, *(comparison.failure for comparison in verdict.comparisons)]
    last = [failure.splitlines()[-1] for failure in failures if failure]
    return " ".join([verdict.kind.value, *last])


if __name__ == "__main__":
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    given = dict(item.split("=", 1) for item in sys.argv[2:at])
    main(Path(sys.argv[1]).resolve(), given, sys.argv[at + 1 :])
