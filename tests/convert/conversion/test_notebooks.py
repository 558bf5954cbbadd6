"""Notebooks, of whose code cells a script is made."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import Ddpify
from tests.convert.examples import HEAD, STEP
from tests.training_runs import TrainingRuns, assert_same_training

SETUP = "%matplotlib inline\n!pip install torch\nimport torch\ntorch.manual_seed(1)\n"
TRAINING = "if True:\n    %time torch.set_default_dtype(torch.float64)\n"


def notebook(folder: Path, *cells: str) -> Path:
    """A notebook of code cells, with a text before each."""
    code: dict[str, object] = {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
    }
    text = {"cell_type": "markdown", "metadata": {}, "source": ["# Title\n"]}
    made = [one for cell in cells for one in (text, {**code, "source": cell.splitlines(True)})]
    path = folder / "train.ipynb"
    path.write_text(json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return path


def test_a_script_is_made_and_converted(ddpify: Ddpify, tmp_path: Path, runs: TrainingRuns) -> None:
    seeded = HEAD.replace("\n\n", "\n\ntorch.set_default_dtype(torch.float64)\n", 1)
    path = notebook(tmp_path, SETUP, seeded, STEP + "print(penalty.item())", "brain")
    target = tmp_path / "train_ddp.py"
    done = ddpify("convert", path, "-o", target)
    assert done.code == 0, done.stderr
    lines = target.read_text().splitlines()
    assert "# %matplotlib inline" in lines
    assert "# !pip install torch" in lines
    assert "brain = dd.wrap(nn.Linear(4, 3))" in lines
    assert "a script does not do this line of the notebook: !pip install torch" in done.stderr
    original = tmp_path / "original.py"
    original.write_text(
        "import torch\ntorch.manual_seed(1)\n" + seeded + STEP + "print(penalty.item())"
    )
    assert_same_training(runs.run(original), runs.run(target, 2))


def test_a_magic_in_a_block_leaves_a_statement(ddpify: Ddpify, tmp_path: Path) -> None:
    path = notebook(tmp_path, SETUP, HEAD, TRAINING, STEP)
    done = ddpify("convert", path, "-o", "-")
    assert done.code == 0
    assert "    pass  # line of the notebook: %time torch.set_default" in done.stdout
    assert "this line of the notebook: %time torch.set_default_dtype" in done.stderr


def test_a_notebook_is_not_written_over(ddpify: Ddpify, tmp_path: Path) -> None:
    path = notebook(tmp_path, HEAD, STEP)
    before = path.read_bytes()
    done = ddpify("convert", path, "--in-place")
    assert done.code == 2
    assert "give -o FILE.py" in done.stderr
    assert path.read_bytes() == before


def test_what_is_no_notebook(ddpify: Ddpify, tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    path.write_text("{}")
    done = ddpify("convert", path, "-o", tmp_path / "train.py")
    assert done.code == 2
    assert "cannot read this notebook" in done.stderr
