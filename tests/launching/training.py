"""A fixture in float64, converted, whose ranks leave a file each; and what it must leave."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch

from ddpify.convert import convert_file
from tests.conftest import FIXTURES

ROOT = FIXTURES.parent
_MARK = "open(f'rank{dd.rank()}of{dd.world_size()}', 'w').close()\n"
Weights = dict[str, torch.Tensor]


def environment(**variables: str) -> dict[str, str]:
    """With this checkout and this interpreter's torchrun first, and no launcher's variables."""
    folder = str(Path(sys.executable).parent)
    return {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "HOME": os.environ.get("HOME", "/"),
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        **variables,
    }


def make_scripts(folder: Path) -> Weights:
    """Write train_ddp.py, and return what the original trains on one process."""
    text = (FIXTURES / "global_script" / "train.py").read_text()
    double = "import torch\ntorch.set_default_dtype(torch.float64)\n"
    script = folder / "train.py"
    script.write_text(text.replace("import torch\n", double, 1))
    (folder / "train_ddp.py").write_text(convert_file(script).data.decode() + _MARK)
    command = [sys.executable, "train.py"]
    subprocess.run(command, cwd=folder, check=True, env=environment(), stdout=subprocess.DEVNULL)
    return weights(folder)


def weights(folder: Path) -> Weights:
    """The checkpoint in the folder."""
    loaded: Weights = torch.load(folder / "sine.pt")
    return loaded


def assert_trained(folder: Path, expected: Weights, ranks: int) -> None:
    """All ranks took part, in one group, and trained what one process does."""
    marks = sorted(path.name for path in folder.glob("rank*of*"))
    assert marks == [f"rank{rank}of{ranks}" for rank in range(ranks)]
    torch.testing.assert_close(weights(folder), expected, rtol=1e-9, atol=1e-9)
