"""Trainings whose ranks are killed again and again end with the parameters of undisturbed ones.

``python -m benchmarks.restarts [KILLS] [SEED] [STRATEGY]`` converts three fixtures with
``--resume`` (and ``--strategy``, default: ddp), and runs each of them three times under torchrun on
the CPU: undisturbed; with ``--max-restarts``, while kill -9 meets a random rank after random steps,
KILLS times (default: 20), each fourth time as it writes a file; and killed once on two ranks, then
started again on three. It prints how many kills met, how many restarts went on from a snapshot, and
the largest difference in the files that the trainings leave (0: bit for bit).
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parent.parent
TIMEOUT = 60
FIXTURES = ("batchnorm_cnn", "gradient_accumulation", "early_stopping")
EPOCHS = 8
"""Longer than the fixtures, so that there is something to kill."""


def main(kills: str = "20", seed: str = "0", strategy: str = "ddp") -> None:
    """Run the trainings, and print a line for each fixture."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        for fixture in FIXTURES:
            folder = Path(name) / fixture
            folder.mkdir()
            script = _converted(folder, fixture, strategy)
            whole = _train(folder / "whole", script, 2)
            killed = _train(folder / "killed", script, 2, faults=_kills(int(kills), chance))
            _train(folder / "moved", script, 2, faults=_kills(1, chance, 6), restarts=0)
            moved = _train(folder / "moved", script, 3)
            said = (folder / "killed.err").read_text()
            met = len(re.findall(r"exitcode: -9\b", said))
            resumed = said.count("going on from the snapshot")
            print(
                f"{fixture:22} {met} kills, {resumed} restarts from a snapshot:"
                f" {_difference(whole, killed):g}; on 3 ranks: {_difference(whole, moved):.1e}",
                flush=True,
            )


def _converted(folder: Path, name: str, strategy: str) -> Path:
    text = (ROOT / "fixtures" / name / "train.py").read_text()
    script, out = folder / "train.py", folder / "train_ddp.py"
    script.write_text(re.sub(r"^EPOCHS = \d+", f"EPOCHS = {EPOCHS}", text, flags=re.MULTILINE))
    options = ["--resume", "--snapshot-steps", "1", "--strategy", strategy, "-q"]
    command = [sys.executable, "-m", "ddpify", "convert", str(script), "-o", str(out), *options]
    subprocess.run(command, cwd=ROOT, check=True)
    return out


def _kills(count: int, chance: random.Random, step: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "attempt": attempt,
            "rank": 0 if attempt % 4 == 3 else chance.randrange(2),
            "step": step or chance.randint(1, 3),
            "kind": "kill in save" if attempt % 4 == 3 else "kill",
            "delay": chance.random() * 0.02,
        }
        for attempt in range(count)
    ]


def _train(
    folder: Path,
    script: Path,
    ranks: int,
    *,
    faults: list[dict[str, Any]] | None = None,
    restarts: int | None = None,
) -> Path:
    """Train in a folder, which is returned; RuntimeError where that fails."""
    folder.mkdir(exist_ok=True)
    faults = faults or []
    job = {"script": str(script), "folder": str(folder), "ranks": ranks, "faults": faults}
    job |= {"restarts": len(faults) if restarts is None else restarts, "double": True}
    path = folder.with_suffix(".json")
    path.write_text(json.dumps(job))
    environment = {"DDPIFY_TIMEOUT": str(TIMEOUT), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.elastic", "--torchrun", str(path)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=True)
    failed = json.loads(path.with_suffix(".end").read_text())["code"] != 0
    if failed and restarts != 0:
        raise RuntimeError(path.with_suffix(".err").read_text())
    return folder


def _difference(one: Path, other: Path) -> float:
    """The largest difference in what two trainings have saved."""
    files = [path for path in sorted(one.iterdir()) if path.suffix in (".pt", ".pth")]
    assert files, one
    return max(
        float((a.double() - b.double()).abs().max())
        for path in files
        for a, b in zip(_tensors(path), _tensors(other / path.name), strict=True)
    )


def _tensors(path: Path) -> Iterator[torch.Tensor]:
    waiting = [torch.load(path, weights_only=True)]
    while waiting:
        found = waiting.pop()
        if isinstance(found, torch.Tensor):
            yield found
        elif isinstance(found, dict):
            waiting.extend(found.values())
        elif isinstance(found, list | tuple):
            waiting.extend(found)


if __name__ == "__main__":
    main(*sys.argv[1:])
