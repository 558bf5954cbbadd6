"""What ``ddpify lint`` of a project takes after an edit, beside what it takes cold.

    python -m benchmarks.incremental [--scripts 10] [--modules 14]

Writes a project of scripts for several processes, each with modules of its own and one module that
all of them import, and lints it with one process: cold, again, after an edit of one script, after
an edit of a module that one script imports, and after one of the module of all. Prints the CPU
seconds of each, with what starting the command takes, and the ratio to the first.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = """\
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import common
{imports}


def main():
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    data = TensorDataset(torch.randn(64, 8), torch.randn(64, 8))
    loader = DataLoader(data, batch_size=16, sampler=DistributedSampler(data))
    model = DistributedDataParallel(nn.Sequential({layers}).to(rank), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        for x, y in loader:
            loss = common.distance(model(x.to(rank)), y.to(rank))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(loss.item())
    torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
"""
MODULE = """\
import torch
from torch import nn


class Layer{name}(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 32)
        self.second = nn.Linear(32, 8)
        self.norm = nn.LayerNorm(8)

    def forward(self, rows):
        hidden = torch.relu(self.first(self.norm(rows)))
        return rows + self.second(hidden)


def weights(layer):
    return sum(one.numel() for one in layer.parameters())
"""
COMMON = "import torch\n\n\ndef distance(one, other):\n    return (one - other).pow(2).mean()\n"


def write_project(folder: Path, scripts: int, modules: int) -> int:
    """Write the files, and say how many they are."""
    (folder / "common.py").write_text(COMMON)
    (folder / "pyproject.toml").write_text("[project]\nname = 'generated'\n")
    for number in range(scripts):
        names = [f"{number}_{module}" for module in range(modules)]
        for name in names:
            (folder / f"layer_{name}.py").write_text(MODULE.format(name=name))
        imports = "\n".join(f"from layer_{name} import Layer{name}" for name in names)
        layers = ", ".join(f"Layer{name}()" for name in names)
        text = SCRIPT.format(imports=imports, layers=layers)
        (folder / f"train_{number}.py").write_text(text)
    return 1 + scripts * (modules + 1)


def linted(folder: Path) -> float:
    """The CPU seconds of one ``ddpify lint``."""
    before = os.times()
    command = [sys.executable, "-m", "ddpify", "lint", "--jobs", "1", "--exit-zero", "."]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before[2] - before[3]


def main() -> None:
    """Measure, and print a line for each edit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scripts", type=int, default=10)
    parser.add_argument("--modules", type=int, default=14, help="of each script")
    given = parser.parse_args()
    edits = ("", "train_0.py", "layer_1_0.py", "common.py")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = write_project(folder, given.scripts, given.modules)
        cold = linted(folder)
        print(f"{files} files, cold {cold:.2f} s")
        for edit in edits:
            if edit:
                with (folder / edit).open("a") as file:
                    file.write("\n\ndef more():\n    return 1\n")
            seconds = linted(folder)
            print(f"{edit or 'no edit':14} {seconds:6.2f} s {seconds / cold:6.2f}")


if __name__ == "__main__":
    main()
