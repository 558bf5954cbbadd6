"""Every planted bug in a converted fixture: caught, the first difference and the cause right."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import pytest

from ddpify.convert import convert_file
from ddpify.verify import Kind, Verdict, render, verify
from ddpify.verify.launch.launcher import Worker
from tests.conftest import FIXTURES
from tests.verify.bugs import BUGS, FOOLS
from tests.verify.planting import Bug, Names, plant, plant_converted

NAMES = Names()
PLANTED = [bug for bug in BUGS if not bug.needs]
SIZES = (("two_moons(167,", "two_moons(107,"), ("two_moons(87,", "two_moons(47,"))
"""Fewer samples cost less to record; the last batches stay short."""
ARGS = ["--hidden", "8", "--batch-size", "20", "--test-batch-size", "20", "--epochs"]


def fixture() -> str:
    """The script that bugs are planted in."""
    source = (FIXTURES / "functions" / "train.py").read_text()
    for old, new in SIZES:
        assert old in source
        source = source.replace(old, new)
    return source


@cache
def converted(source: str) -> str:
    """Its conversion, made once for all bugs that are planted in both."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "train.py")
        script.write_text(source)
        return convert_file(script).data.decode()


def judged(bug: Bug, folder: Path, worker: Worker) -> Verdict:
    """The verdict on the fixture with the bug, at two processes."""
    script = folder / "train.py"
    source = plant(fixture(), bug.before, NAMES)
    script.write_text(plant(source, bug.both, NAMES))
    (folder / "train_ddp.py").write_text(plant_converted(converted(source), bug, NAMES))
    # What a plateau does to the rate is seen in the epoch after the second that it judges.
    args = [*ARGS, "3" if "plateau" in bug.name else "2"]
    return verify(
        script, folder / "train_ddp.py", worker=worker, timeout=300, stall=4.0, script_args=args
    )


def test_there_are_enough_bugs() -> None:
    assert len(PLANTED) - len(FOOLS) >= 19 + 15
    assert len({bug.name for bug in BUGS}) == len(BUGS)


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.name)
def test_planted_bug(bug: Bug, tmp_path: Path, worker: Worker) -> None:
    verdict = judged(bug, tmp_path, worker)
    if bug.note:
        assert verdict.kind is Kind.EQUIVALENT, render(verdict)
        assert any(bug.rule in note for note in verdict.comparisons[0].notes), render(verdict)
        return
    assert verdict.kind in (Kind.NOT_EQUIVALENT, Kind.EXCEPT), render(verdict)
    assert verdict.exit_code == 1
    found = verdict.comparisons[0].differences[0]
    assert found.what in bug.what, render(verdict)
    if bug.rule:
        assert found.cause is not None
        assert found.cause.rules[0] == bug.rule, render(verdict)
