"""How the work of understanding a script grows when the script is doubled.

    python -m benchmarks.scaling [--size 16] [--projects FOLDER...] [--entries FILE...]

Generates programs that are doubled in one way each: the same helper called from twice as many
places, a chain of calls twice as deep, twice as many branches in a row, twice as many classes under
one loop. Prints the counted steps (see ``ddpify/understanding/budget.py``) and the CPU seconds of
one whole planning at each size, and the ratio to the size before.

With ``--projects`` or ``--entries`` it measures checkouts of public projects instead: see
``benchmarks/projects.py``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks.projects import measure
from ddpify.planning.conversion_options import Options
from ddpify.planning.solver import make_plan
from ddpify.source import read_source
from ddpify.understanding.budget import Budget
from ddpify.understanding.project import Project

HEAD = """\
import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--mode", type=int, default=0)
args = parser.parse_args()
data = TensorDataset(torch.randn(64, 8), torch.randn(64, 8))
loader = DataLoader(data, batch_size=16, shuffle=True)
"""
TRAIN = """\
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for x, y in loader:
        out = model(x)
{body}
        loss = F.mse_loss(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def callers(size: int) -> str:
    """A helper that is called from ``size`` places of one loop."""
    helper = "def scaled(rows, factor):\n    if factor > 1:\n        rows = rows / factor\n"
    helper += "    return F.relu(rows) * factor\n"
    return HEAD + helper + _linear(f"out = scaled(out, {n})" for n in range(size))


def chain(size: int) -> str:
    """Functions of which each calls the one before it twice, ``size`` deep."""
    first = "def step_0(rows):\n    return F.relu(rows)\n"
    more = (
        f"def step_{n}(rows):\n    return step_{n - 1}(rows) + step_{n - 1}(rows * 2)\n"
        for n in range(1, size)
    )
    return HEAD + first + "".join(more) + _linear([f"out = step_{size - 1}(out)"])


def branches(size: int) -> str:
    """``size`` branches in a row on an option of which nothing is known, each with a call."""
    helper = "def shifted(rows, by):\n    return rows + by\n"
    lines = (
        f"if args.mode == {n}:\n            out = shifted(out, {n})\n"
        f"        else:\n            out = F.relu(out)"
        for n in range(size)
    )
    return HEAD + helper + _linear(lines)


def classes(size: int) -> str:
    """``size`` classes of layers, whose objects are layers of a model that calls them in a loop."""
    each = (
        f"class Block{n}(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.layer = nn.Linear(8, 8)\n\n    def forward(self, rows):\n"
        f"        return rows + F.relu(self.layer(rows))\n\n\n"
        for n in range(size)
    )
    blocks = ", ".join(f"Block{n}()" for n in range(size))
    model = "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    model += f"        self.blocks = nn.ModuleList([{blocks}])\n\n    def forward(self, rows):\n"
    model += "        for block in self.blocks:\n            rows = block(rows)\n"
    model += "        return rows\n\n\nmodel = Net()\n"
    return HEAD + "".join(each) + model + TRAIN.format(body="        pass")


def _linear(lines: Iterable[str]) -> str:
    body = "\n".join(f"        {line}" for line in lines)
    return "model = nn.Linear(8, 8)\n" + TRAIN.format(body=body)


SHAPES: dict[str, Callable[[int], str]] = {
    "callers": callers,
    "chain": chain,
    "branches": branches,
    "classes": classes,
}


def planned_steps(script: str, folder: Path) -> int:
    """The steps that deciding how to convert a script takes, of all rounds together.

    Raises:
        Refusal: It cannot be converted, or takes more steps than an entry may.
    """
    path = folder / "train.py"
    path.write_text(script)
    project = Project(read_source(path))
    project.budget = Budget()
    make_plan(project, Options())
    return project.budget.used


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=16, help="of the smallest program")
    parser.add_argument("--projects", type=Path, nargs="+", default=[], help="to lint")
    parser.add_argument("--entries", type=Path, nargs="+", default=[], help="to convert")
    given = parser.parse_args()
    if given.projects or given.entries:
        measure(given.projects, given.entries)
    else:
        double(given.size)


def double(size: int) -> None:
    """Measure each way of doubling at three sizes, and print a line for each."""
    with tempfile.TemporaryDirectory() as folder:
        for name, shape in SHAPES.items():
            before = None
            for number in (size, 2 * size, 4 * size):
                started = time.process_time()
                steps = planned_steps(shape(number), Path(folder))
                seconds = time.process_time() - started
                ratio = f"{steps / before:.2f}" if before else ""
                print(f"{name:10}{number:6}{steps:10,} steps {seconds:7.2f} s {ratio:>6}")
                before = steps


if __name__ == "__main__":
    main()
