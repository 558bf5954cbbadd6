"""Modules that print or draw as they are imported: the ranks know of each other before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ddpify.convert.project import convert_folder

TRAINING = """\
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from settings import SIZE, order


def main():
    loader = DataLoader(TensorDataset(torch.ones(8, 2), torch.ones(8, 1)), batch_size=SIZE)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    print("trained", file=sys.stderr)
    print(order, file=sys.stderr)


if __name__ == "__main__":
    main()
"""
NET = """\
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(2, 2)"""
ACTING = [
    "print('settings')",
    "if SIZE:\n    print('settings')",
    "try:\n    import unknown\nexcept ImportError:\n    print('not there')",
    "def show(text):\n    print(text)\n\n\nshow('settings')",
    "class Shown:\n    print('made')",
    "order = np.random.permutation(12)",
    "order = list(range(12))\nrandom.shuffle(order)",
    "order = torch.randperm(12)",
    "encoder = torch.nn.Linear(2, 2)",
    f"{NET}\n\n\nnet = Net()",
    "w = torch.empty(3)\ntorch.nn.init.normal_(w)",
]
QUIET = [
    "np.random.seed(0)",
    "rng = np.random.RandomState(0)",
    "def show(text):\n    print(text)",
    "draw = lambda: random.random()",
    "if __name__ == '__main__':\n    print('tested')",
    "size = max(SIZE, 2)",
    "rule = torch.nn.CrossEntropyLoss()",
    NET,
]


def _starts(folder: Path, lines: str) -> str:
    """The converted script, where the module of its settings has these lines."""
    head = "import random\n\nimport numpy as np\nimport torch\n\nSIZE, order = 4, None\n\n\n"
    (folder / "settings.py").write_text(f"{head}{lines}\n")
    (folder / "train.py").write_text(TRAINING)
    made = convert_folder(folder, [Path("train.py")]).files[Path("train.py")]
    return made.data.decode()


@pytest.mark.parametrize("lines", ACTING)
def test_the_ranks_meet_before_a_module_acts(tmp_path: Path, lines: str) -> None:
    assert "\ndd.init()\n\nfrom settings import" in _starts(tmp_path, lines)


@pytest.mark.parametrize("lines", QUIET)
def test_the_ranks_meet_in_the_main_part_otherwise(tmp_path: Path, lines: str) -> None:
    assert '\nif __name__ == "__main__":\n    dd.init()\n' in _starts(tmp_path, lines)


def test_all_ranks_have_what_a_module_drew_and_print_once(tmp_path: Path) -> None:
    lines = "order = np.random.permutation(50).tolist()\nprint('drawn')"
    (tmp_path / "train.py").write_text(_starts(tmp_path, lines))
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    done = subprocess.run(
        [sys.executable, *torchrun, "train.py"],
        cwd=tmp_path,
        text=True,
        capture_output=True,
        check=True,
        timeout=300,
    )
    drawn = [line for line in done.stderr.splitlines() if line.startswith("[")]
    assert done.stdout.split() == ["drawn"]
    assert len(drawn) == 2 and drawn[0] == drawn[1]
