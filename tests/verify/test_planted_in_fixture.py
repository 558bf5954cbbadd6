"""Every planted bug in a converted fixture: caught, the first difference and the cause right."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ddpify.convert import convert_file
from ddpify.verify import Kind, Verdict, render, verify
from ddpify.verify.launch.launcher import Worker
from tests.conftest import FIXTURES
from tests.verify.planting import BUGS, FOOLS, Bug, plant, plant_converted


def judged(bug: Bug, folder: Path, worker: Worker) -> Verdict:
    """The verdict on the fixture with the bug, at two processes."""
    script = folder / "train.py"
    source = plant((FIXTURES / "functions" / "train.py").read_text(), bug.before)
    script.write_text(source)
    converted = convert_file(script).data.decode()
    script.write_text(plant(source, bug.both))
    (folder / "train_ddp.py").write_text(plant_converted(converted, bug))
    args = ["--epochs", "3", "--hidden", "8"]
    return verify(
        script, folder / "train_ddp.py", worker=worker, timeout=60, stall=2.0, script_args=args
    )


def test_there_are_enough_bugs() -> None:
    assert len(BUGS) - len(FOOLS) >= 19 + 15
    assert len({bug.name for bug in BUGS}) == len(BUGS)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
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


def test_reading_the_originals_record_is_refused(tmp_path: Path, worker: Worker) -> None:
    shutil.copyfile(FIXTURES / "functions" / "train.py", tmp_path / "train.py")
    (tmp_path / "fooling.py").write_text(
        "import glob, json, os, tempfile\n"
        "here = os.path.dirname(os.path.abspath(__file__))\n"
        "base = here\n"
        "while not os.path.basename(base).startswith('ddpify-verify-'):\n"
        "    base = os.path.dirname(base)\n"
        "print(open(base + '/record1/rank0.jsonl').read())\n"
    )
    verdict = verify(tmp_path / "train.py", tmp_path / "fooling.py", worker=worker, timeout=60)
    assert verdict.kind is Kind.COULD_NOT_RUN
    assert "reads another run" in render(verdict)


def test_copying_the_originals_outputs_is_no_training(tmp_path: Path, worker: Worker) -> None:
    """The results of an earlier run lie in the folder; the converted script hands them in."""
    shutil.copyfile(FIXTURES / "functions" / "train.py", tmp_path / "train.py")
    (tmp_path / "moons.pt").write_bytes(b"as if trained")
    (tmp_path / "fooling.py").write_text("import shutil\nopen('moons.pt', 'ab').write(b'x')\n")
    verdict = verify(tmp_path / "train.py", tmp_path / "fooling.py", worker=worker, timeout=60)
    assert verdict.kind is Kind.NOT_EQUIVALENT, render(verdict)
