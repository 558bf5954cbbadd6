"""Commands of the system, and what somebody types, whose result a script goes by."""

from __future__ import annotations

import subprocess
import sys
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


TYPED = {
    "if input('more? ') == 'n':\n    raise SystemExit": (
        "if dd.broadcast(input('more? ') if dd.is_main() else None) == 'n':"
    ),
    "line = sys.stdin.readline()": (
        "line = dd.broadcast(sys.stdin.readline() if dd.is_main() else None)"
    ),
    "try:\n    n = int(input())\nexcept ValueError:\n    n = 1": (
        "n = int(dd.broadcast(input() if dd.is_main() else None))"
    ),
    "try:\n    os.rmdir('runs')\nexcept OSError:\n    name = input('another name: ')": (
        "name = dd.broadcast(input('another name: ') if dd.is_main() else None)"
    ),
}


@pytest.mark.parametrize("lines", TYPED)
def test_rank_0_reads_what_somebody_types_and_tells_it(tmp_path: Path, lines: str) -> None:
    text = f"import os\nimport sys\n{HEAD}{lines}\n{STEP}"
    assert TYPED[lines] in added(tmp_path, text)


@pytest.mark.parametrize("handled", ["except EOFError:", "except Exception:", "except:"])
def test_an_end_of_input_that_is_caught_is_noted(tmp_path: Path, handled: str) -> None:
    lines = f"try:\n    name = input()\n{handled}\n    name = ''\n"
    notes = convert_text(tmp_path, f"{HEAD}{lines}{STEP}").notes
    assert [note.line for note in notes if note.attention] == [12]


ASKING = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(6, 2), torch.randn(6, 1)), batch_size=3)
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while input("another epoch? ") != "no":
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    print(f"{loss.item():.4f}")
"""


def test_all_ranks_go_by_what_one_person_typed(tmp_path: Path) -> None:
    converted = tmp_path / "converted.py"
    converted.write_bytes(convert_text(tmp_path, ASKING).data)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    alone, together = (
        subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            input="yes\nyes\nno\n",
            text=True,
            stdout=subprocess.PIPE,
            check=True,
            timeout=300,
        ).stdout
        for command in (["script.py"], [*torchrun, converted.name])
    )
    assert alone.count("another epoch?") == 3
    assert together == alone
