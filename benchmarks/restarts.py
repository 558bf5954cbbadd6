"""Trainings whose ranks are killed again and again end as undisturbed ones do.

``python -m benchmarks.restarts [KILLS] [SEED] [STRATEGY] [REGEX]`` converts the scripts in
benchmarks/kept, which together hold every kind of state that outlives a round, and three fixtures
with ``--resume`` (and ``--strategy``, default: ddp). REGEX picks some of them. Each runs under
torchrun's agent on the CPU, in float64: undisturbed; with restarts, while kill -9 meets it after
random steps, KILLS times (default: 20); and killed once on two ranks, then started again on three
and on one. The kills are in turn those of ``KINDS``. Every second script takes a snapshot at every
step, the others at every third.

For each script it prints how many kills met, how many restarts went on from a snapshot, the
largest difference in the files that the trainings leave (0: bit for bit), and whether each line
that the undisturbed training prints is printed, in the same order, and no other.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parent.parent
TIMEOUT = 60
FIXTURES = ("batchnorm_cnn", "gradient_accumulation", "early_stopping")
EPOCHS = 8
"""Of the fixtures: longer than they are, so that there is something to kill."""
KINDS = ("kill", "kill all", "kill half-written", "kill written", "kill all half-written")
"""A random rank at any moment; all ranks at once; rank 0 with half a snapshot written, or with a
whole one that has no name yet; all ranks with half a snapshot written."""


@dataclass(frozen=True)
class Script:
    """A converted script: its name, its path, and how many steps there are between snapshots."""

    name: str
    path: Path
    every: int


def main(kills: str = "20", seed: str = "0", strategy: str = "ddp", pattern: str = "") -> None:
    """Run the trainings, and print a line for each script."""
    chance, wrong = random.Random(seed), 0
    kept = sorted((ROOT / "benchmarks" / "kept").glob("[a-z]*.py"))
    sources = [*kept, *(ROOT / "fixtures" / name / "train.py" for name in FIXTURES)]
    with tempfile.TemporaryDirectory() as name:
        for number, source in enumerate(sources):
            title = source.parent.name if source.name == "train.py" else source.stem
            if re.search(pattern, title):
                folder = Path(name) / title
                folder.mkdir()
                script = _converted(folder, title, source, strategy, every=1 + 2 * (number % 2))
                wrong += not _tried(folder, script, int(kills), chance)
    sys.exit(f"{wrong} scripts differ" if wrong else 0)


def _tried(folder: Path, script: Script, kills: int, chance: random.Random) -> bool:
    """Print a line about one script; whether it ends as it does undisturbed."""
    often, once = _kills(kills, chance, script.every), _kills(1, chance, script.every, 9)
    jobs = [_job(folder / "whole", script, 2), _job(folder / "killed", script, 2, often, kills)]
    for ranks in (3, 1):
        place = folder / f"on-{ranks}"
        jobs += [_job(place, script, 2, once, part="before"), _job(place, script, ranks)]
    _run(jobs)
    said = (folder / "killed.err").read_text()
    met = len(re.findall(r"exitcode: -9\b", said))
    resumed = said.count("resuming from the snapshot")
    whole, killed, *moved = (folder / place for place in ("whole", "killed", "on-3", "on-1"))
    same, lines = _difference(whole, killed), _same_lines(whole, killed)
    apart = [_difference(whole, one) for one in moved]
    print(
        f"{script.name:22} {met} kills, {resumed} restarts from a snapshot: {same:g}, lines "
        f"{'the same' if lines else 'DIFFER'}; on 3 ranks {apart[0]:.1e}, on 1 {apart[1]:.1e}",
        flush=True,
    )
    return same == 0 and lines and max(apart) < 1e-9


def _converted(folder: Path, title: str, source: Path, strategy: str, every: int) -> Script:
    script, out = folder / "train.py", folder / "train_ddp.py"
    text = source.read_text()
    if source.name == "train.py":
        text = re.sub(r"^EPOCHS = \d+", f"EPOCHS = {EPOCHS}", text, flags=re.MULTILINE)
    script.write_text(text)
    options = ["--resume", "--snapshot-steps", str(every), "--strategy", strategy, "-q"]
    command = [sys.executable, "-m", "ddpify", "convert", str(script), "-o", str(out), *options]
    subprocess.run(command, cwd=ROOT, check=True)
    return Script(title, out, every)


def _kills(count: int, chance: random.Random, every: int, step: int = 0) -> list[dict[str, Any]]:
    """What ends each attempt; ``step``: after how many steps, instead of a random number."""
    return [
        {
            "attempt": attempt,
            "rank": chance.randrange(2) if KINDS[attempt % len(KINDS)] == "kill" else 0,
            "step": step or chance.randint(1, 2 * every + 1),
            "kind": KINDS[attempt % len(KINDS)],
            "delay": chance.random() * 0.02,
            "part": chance.random(),
        }
        for attempt in range(count)
    ]


def _job(
    folder: Path,
    script: Script,
    ranks: int,
    faults: list[dict[str, Any]] | None = None,
    restarts: int = 0,
    part: str = "",
) -> Path:
    """The file of a job for ``tests.elastic``; ``part``: what is said after the folder's name."""
    folder.mkdir(exist_ok=True)
    job = {"script": str(script.path), "folder": str(folder), "ranks": ranks, "double": True}
    path = folder.with_suffix(f".{part}.json" if part else ".json")
    path.write_text(json.dumps({**job, "faults": faults or [], "restarts": restarts}))
    return path


def _run(jobs: list[Path]) -> None:
    """Run the jobs in turn; RuntimeError where one fails that is not to."""
    environment = {"DDPIFY_TIMEOUT": str(TIMEOUT), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.elastic", *map(str, jobs)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=True)
    for path in jobs:
        failed = json.loads(path.with_suffix(".end").read_text())["code"] != 0
        if failed != (path.stem.endswith(".before")):
            raise RuntimeError(path.with_suffix(".err").read_text())


def _same_lines(whole: Path, killed: Path) -> bool:
    """Lines since the newest snapshot are printed again; without the repeated ones, all agree."""
    texts = [one.with_suffix(".out").read_text().splitlines() for one in (whole, killed)]
    first, again = (list(dict.fromkeys(lines)) for lines in texts)
    return first == again


def _difference(one: Path, other: Path) -> float:
    """The largest difference in what two trainings have saved."""
    files = [path for path in sorted(one.iterdir()) if path.suffix in (".pt", ".pth")]
    assert files, one
    return max(
        _apart(a, b)
        for path in files
        for a, b in zip(_numbers(path), _numbers(other / path.name), strict=True)
    )


def _apart(a: torch.Tensor, b: torch.Tensor) -> float:
    return 0.0 if torch.equal(a, b) else float((a - b).abs().nan_to_num(math.inf).max())


def _numbers(path: Path) -> Iterator[torch.Tensor]:
    """All tensors and numbers in a file."""
    waiting = [torch.load(path, weights_only=True)]
    while waiting:
        found = waiting.pop()
        if isinstance(found, torch.Tensor | float | int):
            yield torch.as_tensor(found).double()
        elif isinstance(found, dict):
            waiting.extend(found.values())
        elif isinstance(found, list | tuple):
            waiting.extend(found)


if __name__ == "__main__":
    main(*sys.argv[1:])
