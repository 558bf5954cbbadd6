"""What check costs: a step's time with --light, and a script's whole time on the CPU.

    python -m benchmarks.check_costs light [ROUNDS]        a training under torchrun, 2 processes
    python -m benchmarks.check_costs fixtures [NAME ...]   converted fixtures, 2 processes

``light`` runs the same training in turn without and with ``check --light``, and prints the ratio of
the medians of all steps: of the elapsed time, and of the processor time of rank 0, which other
programs on the machine disturb less. ``fixtures`` prints the time of torchrun alone, of check, and
the limit of three times the first plus 15 s.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ddpify.convert import convert_file

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
DEFAULT = ("trainer_class", "batchnorm_cnn", "gradient_accumulation", "hardcoded_cuda")
LIGHT = """
import json, time, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
layers = [torch.nn.Linear(800, 800) for _ in range(6)]
model = DistributedDataParallel(torch.nn.Sequential(*layers))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
times = []
for step in range(12):
    x = torch.randn(900, 800)
    begin, used = time.perf_counter(), time.process_time()
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
    times.append((time.perf_counter() - begin, time.process_time() - used))
if dist.get_rank() == 0:
    print("TIMES", json.dumps(times[2:]), flush=True)
dist.destroy_process_group()
"""
"""The first two steps are left out: they build what later steps use."""


def measure_light(rounds: int) -> None:
    """Print the median step without and with fingerprints, and the ratios."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(LIGHT)
        light = ["-m", "ddpify", "check", "train.py", "--light", "--go-on", "--steps", "12"]
        found: dict[str, list[list[float]]] = {"plain": [], "light": []}
        for _ in range(rounds):
            found["plain"] += _steps(["train.py"], folder)
            found["light"] += _steps(light, folder)
    for at, kind in enumerate(("elapsed", "processor")):
        plain, watched = (
            statistics.median(step[at] for step in found[name]) for name in ("plain", "light")
        )
        print(
            f"{kind}: {plain * 1e3:.0f} ms, with --light {watched * 1e3:.0f} ms, "
            f"{watched / plain - 1:+.1%} ({len(found['plain'])} steps each)"
        )


def _steps(command: list[str], folder: str) -> list[list[float]]:
    done = _torchrun(command, folder)
    line = next(line for line in done.stdout.splitlines() if line.startswith("TIMES"))
    times: list[list[float]] = json.loads(line[len("TIMES ") :])
    return times


def _torchrun(command: list[str], folder: str) -> subprocess.CompletedProcess[str]:
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run([*start, *command], cwd=folder, env=environment, capture_output=True,
                          text=True, check=True)  # fmt: skip


def measure_fixture(name: str) -> None:
    """Print the time of a converted fixture under torchrun alone, and of its check."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "project"
        shutil.copytree(FIXTURES / name, folder)
        (folder / "train_ddp.py").write_bytes(convert_file(folder / "train.py").data)
        start = time.monotonic()
        command = [sys.executable, "-m", "ddpify", "check", "train_ddp.py"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        checked = time.monotonic() - start
        start = time.monotonic()
        _torchrun(["train_ddp.py"], str(folder))
        alone = time.monotonic() - start
    limit = 3 * alone + 15
    word = "met" if checked <= limit else "MISSED"
    said = (done.stdout.splitlines() or ["no output"])[-1]
    print(f"{name}: {alone:.1f} s alone, {checked:.1f} s checked, limit {limit:.1f} s: {word}; "
          f"{said}", flush=True)  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:2] == ["light"]:
        measure_light(int(sys.argv[2]) if len(sys.argv) > 2 else 3)
    else:
        for one in sys.argv[2:] or DEFAULT:
            measure_fixture(one)
