"""Every fixture, converted with every option, at 1, 2 and 3 ranks.

    python -m benchmarks.every_option [--options REGEX] [NAME ...]

Options that promise the same training are compared with the original: parameters after every step,
what is printed and written. The others change it by intent (another order, another batch, another
precision): there the run must end well, and every rank must have the same parameters after every
step. ``refused`` counts conversions that are refused, with a message. REGEX picks some of the
options; "^$" is none.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.conftest import FIXTURES
from tests.training_runs import (
    Training,
    TrainingRuns,
    assert_same_steps,
    assert_same_training,
    assert_succeeded,
    training_runs,
)

SAME = (
    (), ("--resume", "--snapshot-steps", "1"), ("--strategy", "fsdp"),
    ("--strategy", "fsdp", "--resume", "--snapshot-steps", "1"),
    ("--strategy", "fsdp", "--activation-checkpointing"), ("--vendor",),
)  # fmt: skip
OTHER = (
    ("--sampler", "distributed"), ("--no-sync-bn",), ("--batch", "per-rank"),
    ("--batch", "per-rank", "--scale-lr", "linear"), ("--batch", "per-rank", "--scale-lr", "sqrt"),
    ("--strategy", "fsdp", "--mixed-precision", "bfloat16"),
)  # fmt: skip
DEADLINE = 300.0
ON_CUDA = ("hardcoded_cuda",)


def main(names: list[str], pattern: str) -> None:
    """Print a line for each outcome that is not right, and the totals."""
    totals: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, training_runs(Path(folder)) as runs:
        for path in sorted(FIXTURES.glob("*/train.py")):
            name = path.parent.name
            if names and name not in names:
                continue
            original = runs.run(path, cuda_on_cpu=name in ON_CUDA)
            for options in (one for one in (*SAME, *OTHER) if re.search(pattern, " ".join(one))):
                _try(name, options, runs, original, totals)
            print(f"{name}: {dict(totals)}", flush=True)


def _try(
    name: str, options: tuple[str, ...], runs: TrainingRuns, original: Training,
    totals: Counter[str],
) -> None:  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "train_ddp.py"
        command = [sys.executable, "-m", "ddpify", "convert", "-q", "-o", str(out), *options]
        done = subprocess.run([*command, str(FIXTURES / name / "train.py")], capture_output=True,
                              text=True, check=False)  # fmt: skip
        if done.returncode:
            totals["refused"] += 1
            print(f"refused {name} {' '.join(options)}: {done.stderr.splitlines()[:1]}", flush=True)
            return
        for module in (FIXTURES / name).glob("*.py"):
            shutil.copy(module, folder)
        for size in (1, 2, 3):
            word = _judged(
                options,
                original,
                runs.run(out, size, deadline=DEADLINE, double="--mixed-precision" not in options),
            )
            totals[word.partition(":")[0]] += 1
            if not word.startswith("right"):
                print(f"{name} {' '.join(options)} at {size}: {word}", flush=True)


def _judged(options: tuple[str, ...], original: Training, run: Training) -> str:
    try:
        if options in SAME:
            assert_same_training(original, run, work="--activation-checkpointing" not in options)
        else:
            assert_succeeded(run)
            for rank in run.ranks[1:]:
                assert_same_steps(run.ranks[0].steps, rank.steps, "a rank")
    except AssertionError as error:
        lines = str(error).splitlines()
        return f"WRONG: {lines[0][:200]} {lines[-1][:200] if lines[1:] else ''}"
    return "right"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--options", default="")
    parser.add_argument("names", nargs="*")
    told = parser.parse_args()
    main(told.names, told.options)
