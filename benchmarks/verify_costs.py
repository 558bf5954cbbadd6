"""What verify costs: time against the original's own run, and memory on a large model.

    python -m benchmarks.verify_costs [fixture ...]      50 steps on 2 processes
    python -m benchmarks.verify_costs --large            a model of 100 million parameters

The memory of the largest process is printed for two numbers of steps: it must not grow with them.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ddpify.convert import convert_file
from ddpify.verify import verify

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
STEPS = 50
LARGE = """
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.Linear(5000, 5000) for _ in range(4)))
data = TensorDataset(torch.randn(400, 5000), torch.randn(400, 5000))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x, y in DataLoader(data, batch_size=4, shuffle=True):
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def time_fixture(name: str) -> None:
    """Print the time of the original by itself and of its verification."""
    with tempfile.TemporaryDirectory() as folder:
        script = FIXTURES / name / "train.py"
        start = time.monotonic()
        command = [sys.executable, str(script)]
        subprocess.run(command, cwd=folder, check=False, capture_output=True)
        alone = time.monotonic() - start
        verdict = verified(script, STEPS)
    limit = 3 * alone + 15
    print(f"{name}: {alone:.1f} s alone, {verdict} s verified, limit {limit:.1f} s", flush=True)


def verified(script: Path, steps: int) -> str:
    """Seconds that a verification of ``steps`` steps on two processes takes, and its verdict."""
    start = time.monotonic()
    verdict = verify(
        script,
        steps=steps,
        convert=lambda source, target: _write(target, convert_file(source).data),
        timeout=3600,
    )
    return f"{verdict.kind.value}: {time.monotonic() - start:.1f}"


def _write(target: Path, data: bytes) -> None:
    target.write_bytes(data)


def measure_large() -> None:
    """Print time and memory for a model of 100 million parameters."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "project" / "large.py"
        script.parent.mkdir()
        script.write_text(LARGE)
        for steps in (4, 12):
            told = verified(script, steps)
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
            own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
            print(f"{steps} steps: {told} s, largest rank {peak:.2f} GB, launcher {own:.2f} GB")


if __name__ == "__main__":
    if "--large" in sys.argv:
        measure_large()
    else:
        names = sys.argv[1:] or sorted(path.parent.name for path in FIXTURES.glob("*/train.py"))
        for name in names:
            time_fixture(name)
