"""Folders that must be new: all ranks go by whether one was there before any of them made it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soundness.trying import Trial
from ddpify.convert import convert_file
from tests.convert.examples import HEAD, STEP, added, convert_text
from tests.convert.running import assert_trains_the_same

TRAINING = """\
import os
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


def fresh(name):
    while True:
        try:
            os.mkdir(name)
        except FileExistsError:
            print("there", name)
            name += "x"
        else:
            return name


def numbered(root):
    for i in range(5):
        path = Path(root) / f"run{i}"
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            continue


def noted(name):
    try:
        os.mkdir(name)
        with open(name + ".txt", "a") as f:
            f.write("made")
    except OSError:
        pass


places = [fresh("a"), fresh("b"), fresh("a"), fresh("a")]
print(places, numbered("r"), numbered("r"), numbered("r"))
for _ in range(3):
    noted("f")
print(open("f.txt").read())
loader = DataLoader(TensorDataset(torch.randn(12, 2), torch.randn(12, 1)), batch_size=4)
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    print(loss.item())
torch.save(model.state_dict(), os.path.join(places[-1], "model.pt"))
"""


def test_a_folder_that_is_there_decides_alike(tmp_path: Path, trial: Trial) -> None:
    script, converted = tmp_path / "train.py", tmp_path / "train_ddp.py"
    script.write_text(TRAINING)
    converted.write_bytes(convert_file(script).data)
    assert_trains_the_same(trial, script, converted)


MADE = "os.makedirs('out', exist_ok={})"
HANDLERS = {
    "except OSError:\n    pass\n": "True",
    "except OSError as e:\n    if e.errno != errno.EEXIST:\n        raise\n": "True",
    "except ValueError:\n    quit()\n": "True",
    "except:\n    quit()\n": "not dd.broadcast(os.path.exists('out'))",
    "except OSError:\n    print('there')\n": "not dd.broadcast(os.path.exists('out'))",
    "except (OSError, ValueError):\n    raise SystemExit\n": (
        "not dd.broadcast(os.path.exists('out'))"
    ),
    "except OSError:\n    pass\nelse:\n    print('new')\n": (
        "not dd.broadcast(os.path.exists('out'))"
    ),
}


@pytest.mark.parametrize("handler", HANDLERS)
def test_rank_0_looks_where_a_handler_decides(tmp_path: Path, handler: str) -> None:
    text = f"import errno\nimport os\n{HEAD}try:\n    os.mkdir('out')\n{handler}{STEP}"
    assert MADE.format(HANDLERS[handler]) in added(tmp_path, text)


def test_a_path_that_may_not_be_asked_for_twice_is_noted(tmp_path: Path) -> None:
    lines = "try:\n    os.mkdir(next(names))\nexcept OSError:\n    quit()\n"
    text = f"import os\n{HEAD}names = iter(['a', 'b'])\n{lines}{STEP}"
    notes = convert_text(tmp_path, text).notes
    assert [note.line for note in notes if note.attention] == [14]


def test_a_folder_that_a_condition_asks_for_may_be_there_by_then(tmp_path: Path) -> None:
    asked = """\
import os
try:
    if not os.path.exists("out"):
        os.makedirs("out")
except OSError as error:
    print(error)
    raise SystemExit(1)
"""
    lines = [line.strip() for line in added(tmp_path, HEAD + asked + STEP)]
    assert 'os.makedirs("out", exist_ok=True)' in lines
