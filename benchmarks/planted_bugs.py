"""Plant every bug of the tests in a script of your own, and print what verify says about each.

    python -m benchmarks.planted_bugs SCRIPT [-- script arguments]

SCRIPT is of the shape of PyTorch's MNIST example (its names are those that
tests/verify/planting.py looks for), makes at least three passes, and shuffles.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

from ddpify.convert import convert_file
from ddpify.errors import DdpifyError
from ddpify.verify import Kind, Verdict, verify, warm_worker
from ddpify.verify.launch.launcher import Worker
from tests.verify.planting import BUGS, Bug, plant, plant_converted

CAUGHT = (Kind.NOT_EQUIVALENT, Kind.EXCEPT)


def main(script: Path, args: list[str]) -> None:
    """Print a line for each bug, and the totals."""
    totals = [0, 0, 0]
    with warm_worker(script.read_text()) as worker:
        for bug in BUGS:
            start = time.monotonic()
            try:
                answers, text = judged(bug, planted(bug, script, worker, args))
            except (DdpifyError, ValueError) as error:
                answers, text = [False, False, False], str(error).splitlines()[0]
            totals = [total + answer for total, answer in zip(totals, answers, strict=True)]
            word = "right" if all(answers) else "WRONG"
            print(f"{word} {time.monotonic() - start:5.1f} s  {bug.name}: {text}", flush=True)
    caught, first, cause = totals
    print(f"{len(BUGS)} bugs: {caught} caught, {first} first differences and {cause} causes right")


def planted(bug: Bug, script: Path, worker: Worker, args: list[str]) -> Verdict:
    """The verdict on a copy of the script's folder with the bug."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "planted"
        shutil.copytree(script.parent, copy)
        original, converted = copy / script.name, copy / "planted_ddp.py"
        source = plant(script.read_text(), bug.before)
        original.write_text(source)
        text = convert_file(original).data.decode()
        original.write_text(plant(source, bug.both))
        converted.write_text(plant_converted(text, bug))
        return verify(original, converted, worker=worker, stall=3.0, script_args=args)


def judged(bug: Bug, verdict: Verdict) -> tuple[list[bool], str]:
    """Whether the bug is caught, the first difference right and the cause right; in words."""
    comparison = verdict.comparisons[0] if verdict.comparisons else None
    if bug.note:
        notes = comparison.notes if comparison else []
        found = any(bug.rule in note for note in notes)
        return [found] * 3, verdict.kind.value
    if comparison is None or not comparison.differences:
        return [False] * 3, verdict.kind.value
    first = comparison.differences[0]
    rules = first.cause.rules if first.cause else ()
    right = not bug.rule or rules[:1] == (bug.rule,)
    text = f"{verdict.kind.value}; {first.what.value}; {' '.join(rules)}"
    return [verdict.kind in CAUGHT, first.what in bug.what, right], text


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), [arg for arg in sys.argv[2:] if arg != "--"])
