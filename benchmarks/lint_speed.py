"""CPU time of ``ddpify lint`` against TorchFix and a bare ``import libcst``, as ratios of one run.

    python benchmarks/lint_speed.py FOLDER [--script FILE] [--torchfix PATH] [--repeat 3]

FOLDER holds Python files, such as checkouts of pytorch/examples and the Lightning sources; FILE is
one training script in it. TorchFix is `pip install torchfix`, best in an environment of its own; it
is left out where it is not found. All numbers are user and system time of whole processes, children
included, the least of the repetitions: other work on the machine changes them less than wall time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]


def cpu(command: Sequence[str], repeat: int, cwd: Path) -> tuple[float, float]:
    """The least CPU seconds of a command, and the most memory of it in MB."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    # An installed package starts from bytecode: so does this one, from its second start on.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    times, most = [], 0
    for _ in range(repeat):
        with open(os.devnull, "w") as nowhere:
            running = subprocess.Popen(command, cwd=cwd, env=env, stdout=nowhere, stderr=nowhere)
            _, _, used = os.wait4(running.pid, 0)
        times.append(used.ru_utime + used.ru_stime)
        most = max(most, used.ru_maxrss)
    return min(times), most / 1024


HEAD = """import os

import torch
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

"""
STEP = """
def step_{n}(model, batch, optimizer):
    x, y = batch
    loss = F.cross_entropy(model(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()

"""
MAIN = """
def main():
    torch.distributed.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DistributedDataParallel(torch.nn.Linear(8, 2).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = TensorDataset(torch.randn(64, 8), torch.randint(2, (64,)))
    loader = DataLoader(rows, batch_size=16, sampler=DistributedSampler(rows))
    for epoch in range(3):
        for batch in loader:
"""
CALL = "            step_{n}(model, batch, optimizer)\n"


def generated(folder: Path, lines: int) -> Path:
    """A distributed script of about so many lines, which trains and calls all of its functions."""
    fixed = (HEAD + MAIN).count("\n")
    steps = range(max(1, (lines - fixed) // (STEP + CALL).count("\n")))
    parts = [HEAD, *(STEP.format(n=n) for n in steps), MAIN, *(CALL.format(n=n) for n in steps)]
    made = folder / f"lines_{lines}.py"
    made.write_text("".join(parts) + "\n\nmain()\n")
    return made


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--script", type=Path)
    parser.add_argument("--torchfix", default=shutil.which("torchfix"))
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        measure(given, Path(work))


def measure(given: argparse.Namespace, work: Path) -> None:
    """One line for each measurement."""
    lint = [sys.executable, "-m", "ddpify", "lint", "--jobs", "1"]
    folder, script = str(given.folder.resolve()), given.script and str(given.script.resolve())
    (work / "plain.py").write_text("import os\n\nprint(os.getcwd())\n")
    files = sum(1 for _ in given.folder.rglob("*.py"))

    def take(name: str, command: list[str], repeat: int = given.repeat) -> float:
        seconds, memory = cpu(command, repeat, work)
        print(f"{name:<44} {seconds:8.3f} s {memory:6.0f} MB", flush=True)
        return seconds

    bare = take("import libcst", [sys.executable, "-c", "import libcst"])
    small = take("a small training script", [*lint, "--no-cache", str(generated(work, 0))])
    plain = take("a small file without torch", [*lint, "--no-cache", "plain.py"])
    short, long = (
        take(f"{n} lines", [*lint, "--no-cache", str(generated(work, n))]) for n in (1000, 20000)
    )
    whole = take(f"the folder ({files} files), cold", [*lint, "--no-cache", folder], 1)
    take("the folder, filling the cache", [*lint, folder], 1)
    warm = take("the folder, warm", [*lint, folder])
    one = take("the script", [*lint, "--no-cache", script]) if script else None
    ratios = {"small script / import libcst": small / bare, "without torch": plain / bare}
    ratios["20,000 lines / 1,000 lines"] = long / short
    ratios["the same, without a small script's time"] = (long - small) / (short - small)
    if given.torchfix:
        theirs = take("TorchFix, the folder", [given.torchfix, "--select=ALL", folder], 1)
        ratios |= {"TorchFix / cold": theirs / whole, "TorchFix / warm": theirs / warm}
        if one is not None:
            single = take("TorchFix, the script", [given.torchfix, "--select=ALL", script])
            ratios["the script / TorchFix"] = one / single
    for name, ratio in ratios.items():
        print(f"{name:<44} {ratio:8.2f}")


if __name__ == "__main__":
    main()
