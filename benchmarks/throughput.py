"""Speed of a converted script's steps against other ways to write the same training.

    python -m benchmarks.throughput [--nproc 1,2] [--blocks 30]

Compared are the original (on one process), DistributedDataParallel written by hand, and Accelerate
where it is installed. Scripts by hand print rank 0's own loss, as PyTorch's tutorials do, which is
not the original's: beside that stand the ones that add up the ranks' losses, where one is printed
or in each step, as the converted script does. The ranks hold all of them at once, and make a few
steps of each in turn, so that what else the machine does meets all alike: a ratio is the median
over the turns. Beside the time of a step stands the processor time that rank 0 spends on it.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

SCRIPTS = Path(__file__).resolve().parent / "scripts"
STEP_DONE = "# step done"
BY_HAND = "handwritten DDP"
PRINTS = "        if step % 20 == 0 and dist.get_rank() == 0:\n"
"""Where the script by hand prints its loss."""
ADDS_UP = "loss = loss.detach() / dist.get_world_size()\n{0}dist.all_reduce(loss)\n"
STEPS = 5
"""Steps of each script in a turn."""
WARM_UP = 2
"""Turns that are not counted."""
Turns = dict[str, list[tuple[float, float]]]


def main() -> None:
    """Convert the original, and start the ranks."""
    from ddpify.convert import convert_file

    options = _options()
    with tempfile.TemporaryDirectory() as folder:
        converted = Path(folder) / "converted.py"
        converted.write_bytes(convert_file(SCRIPTS / "original.py").data)
        for ranks in options.nproc.split(","):
            torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
            given = [f"--blocks={options.blocks}", f"--batch-size={options.batch_size}"]
            subprocess.run(
                [*torchrun, f"--nproc-per-node={ranks}", "-m", "benchmarks.throughput", *given],
                env={**os.environ, "OMP_NUM_THREADS": "1", "CONVERTED": str(converted)},
                check=True,
            )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nproc", default="1,2")
    parser.add_argument("--blocks", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=128)
    return parser.parse_args()


def rank(converted: Path) -> None:
    """One rank: all scripts in turn."""
    import torch.distributed as dist

    options = _options()
    scripts = {"converted": converted.read_text(), **by_hand()}
    if os.environ["WORLD_SIZE"] == "1":
        scripts["original"] = (SCRIPTS / "original.py").read_text()
    if importlib.util.find_spec("accelerate"):
        scripts["Accelerate"] = (SCRIPTS / "accelerate_port.py").read_text()
    steps = (options.blocks + WARM_UP) * STEPS
    sys.argv = ["script", f"--steps={steps}", f"--batch-size={options.batch_size}"]
    runs = {name: stepping(text) for name, text in scripts.items()}
    turns: Turns = {name: [] for name in runs}
    for turn in range(options.blocks + WARM_UP):
        names = list(runs)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            dist.barrier()
            turns[name].append(timed(runs[name]))
    if dist.get_rank() == 0:
        show(dist.get_world_size(), {name: found[WARM_UP:] for name, found in turns.items()})
    os._exit(0)


def by_hand() -> dict[str, str]:
    """The script by hand, and what it becomes where it prints the loss of the whole batch."""
    plain = (SCRIPTS / "handwritten_ddp.py").read_text()
    if os.environ["WORLD_SIZE"] == "1":
        return {BY_HAND: plain}
    assert PRINTS in plain
    step, inside = " " * 8, " " * 12
    printed = f"{step}if step % 20 == 0:\n{inside}{ADDS_UP.format(inside)}{PRINTS}"
    return {
        BY_HAND: plain,
        "  loss added up where printed": plain.replace(PRINTS, printed),
        "  loss added up each step": plain.replace(PRINTS, step + ADDS_UP.format(step) + PRINTS),
    }


def stepping(text: str) -> Iterator[None]:
    """A script as a generator that stops after each optimizer step."""
    text = text.replace(STEP_DONE, "yield").replace("dist.destroy_process_group()", "")
    # The ranks are one group for all: the first script that needs it makes it.
    text = text.replace(
        "dist.init_process_group", "dist.is_initialized() or dist.init_process_group"
    )
    space: dict[str, object] = {}
    exec(f"def run():\n{indent(text, '    ')}", space)
    found: Iterator[None] = space["run"]()  # type: ignore[operator]
    next(found)
    return found


def timed(run: Iterator[None]) -> tuple[float, float]:
    """Seconds and processor seconds of a step."""
    import torch

    start, work = time.perf_counter(), time.process_time()
    for _ in range(STEPS):
        next(run)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / STEPS, (time.process_time() - work) / STEPS


def show(ranks: int, turns: Turns) -> None:
    """Print the medians, and how many times as fast the converted script is as each other."""
    print(f"{ranks} process(es), {len(turns['converted'])} turns of {STEPS} steps")
    for name, taken in turns.items():
        seconds = statistics.median(one[0] for one in taken)
        time_, work = (_ratio(taken, turns["converted"], at) for at in (0, 1))
        print(f"  {name:29} {1 / seconds:6.1f} steps/s   converted: {time_}, processor {work}")
    sys.stdout.flush()


def _ratio(others: list[tuple[float, float]], own: list[tuple[float, float]], at: int) -> str:
    """The median of the turns' ratios, and the quartiles."""
    ratios = [other[at] / one[at] for other, one in zip(others, own, strict=True)]
    low, median, high = statistics.quantiles(ratios, n=4)
    return f"{median:.3f} ({low:.3f} to {high:.3f})"


if __name__ == "__main__":
    if "CONVERTED" in os.environ:
        rank(Path(os.environ["CONVERTED"]))
    else:
        main()
