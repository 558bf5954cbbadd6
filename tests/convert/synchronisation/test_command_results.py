"""Commands of the system whose result a script goes by."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.convert.examples import HEAD, STEP, added, convert_text

SHARED = {
    "made = os.system('mkdir out')": (
        "made = dd.broadcast(os.system('mkdir out') if dd.is_main() else None)"
    ),
    "made = subprocess.run(['mkdir', 'out']).returncode": (
        "made = dd.broadcast(subprocess.run(['mkdir', 'out']) if dd.is_main() else None).returncode"
    ),
    "print(subprocess.check_output('make && echo made', shell=True))": (
        "print(dd.broadcast(subprocess.check_output('make && echo made', shell=True)"
        " if dd.is_main() else None))"
    ),
}


@pytest.mark.parametrize("line", SHARED)
def test_rank_0_runs_a_command_and_tells_what_came_of_it(tmp_path: Path, line: str) -> None:
    text = f"import os\nimport subprocess\n{HEAD}{line}\n{STEP}"
    assert SHARED[line] in added(tmp_path, text)


@pytest.mark.parametrize(
    "line",
    [
        "commit = subprocess.check_output(['git', 'rev-parse', 'HEAD'])",
        "host = subprocess.check_output('hostname', shell=True)",
        "gpus = subprocess.run(['nvidia-smi', '-L'], capture_output=True).stdout",
    ],
)
def test_commands_that_change_nothing_stay(tmp_path: Path, line: str) -> None:
    text = f"import subprocess\n{HEAD}{line}\n{STEP}"
    assert added(tmp_path, text) == added(tmp_path, text.replace(line, ""))


def test_a_command_whose_failure_is_caught_is_noted(tmp_path: Path) -> None:
    lines = "try:\n    out = subprocess.check_output(['make'])\nexcept OSError:\n    out = ''\n"
    notes = convert_text(tmp_path, f"import subprocess\n{HEAD}{lines}{STEP}").notes
    assert [note.line for note in notes if note.attention] == [13]
