"""How a training ends when a rank fails: seconds from the fault to the end, and what is said last.

``python -m benchmarks.faults [COUNT] [SEED] [KIND ...]`` injects COUNT faults (default: 42), of all
kinds in turn, into random ranks at random steps of converted fixtures, under torchrun's agent on
the CPU; an absent rank does not come to init().
It prints, for each kind, how many ended with a failure within the timeout plus ten seconds, and in
how many torchrun's report, which comes last, or the last lines of a rank name the rank at fault.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TIMEOUT = 5
KINDS = ("raise", "exit", "kill", "stall", "terminate", "worker", "absent")
FIXTURES = ("global_script", "batchnorm_cnn", "two_terms")


def main(count: int = 42, seed: int = 0, kinds: tuple[str, ...] = KINDS) -> None:
    """Inject the faults, and print the table."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scripts = {one: _converted(folder, one) for one in FIXTURES}
        jobs = [
            _job(folder, number, kinds[number % len(kinds)], scripts, chance)
            for number in range(count)
        ]
        environment = {
            **os.environ,
            "DDPIFY_TIMEOUT": str(TIMEOUT),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
        }
        command = [sys.executable, "-m", "tests.elastic", *map(str, jobs)]
        subprocess.run(command, cwd=ROOT, env=environment, check=True)
        _report(jobs)


def _converted(folder: Path, name: str) -> Path:
    out = folder / f"{name}.py"
    script = ROOT / "fixtures" / name / "train.py"
    command = [sys.executable, "-m", "ddpify", "convert", str(script), "-o", str(out), "-q"]
    resume = ["--resume"] if name == "global_script" else []
    subprocess.run([*command, *resume], cwd=ROOT, check=True)
    return out


def _job(
    folder: Path, number: int, kind: str, scripts: dict[str, Path], chance: random.Random
) -> Path:
    name = "global_script" if kind == "terminate" else chance.choice(list(scripts))
    ranks = chance.choice((2, 3))
    place = folder / f"run-{number}"
    place.mkdir()
    fault = {
        "attempt": 0,
        "rank": chance.randrange(ranks),
        "step": 0 if kind == "absent" else chance.randint(1, 12),
        "kind": "stall" if kind == "absent" else kind,
        "name": kind,
        "delay": chance.random() * 0.02,
    }
    path = folder / f"job-{number}.json"
    job = {"script": str(scripts[name]), "folder": str(place), "ranks": ranks, "faults": [fault]}
    path.write_text(json.dumps(job))
    return path


def _report(jobs: list[Path]) -> None:
    found: dict[str, list[tuple[bool, bool, float]]] = defaultdict(list)
    for path in jobs:
        fault = json.loads(path.read_text())["faults"][0]
        end = json.loads(path.with_suffix(".end").read_text())
        text = path.with_suffix(".err").read_text()
        in_time = end["code"] != 0 and 0 < end["seconds"] <= TIMEOUT + 10
        named = _names(text, fault)
        found[fault["name"]].append((in_time, named, end["seconds"]))
        if not (in_time and named):
            print(f"{path.name}: {fault}, {end}\n" + "\n".join(text.splitlines()[-25:]))
    print(f"{'fault':12} {'count':>5} {'ended':>6} {'named':>6} {'longest':>8}")
    for kind, rows in found.items():
        ended, named_count = (sum(row[i] for row in rows) for i in (0, 1))
        longest = max(row[2] for row in rows)
        print(f"{kind:12} {len(rows):5} {ended:6} {named_count:6} {longest:7.1f}s")


def _names(text: str, fault: dict[str, Any]) -> bool:
    """Whether the end of what is printed, torchrun's report of the root cause, names the rank."""
    if fault["kind"] == "terminate":
        return "SIGTERM" in text
    report = text[text.rfind("Root Cause") :]
    rank = fault["rank"]
    return bool(re.search(rf"rank +: {rank} |rank {rank}(?:[:\]]| did not come)", report))


if __name__ == "__main__":
    count, seed, *kinds = [*sys.argv[1:], *("42", "0")[len(sys.argv) - 1 :]]
    main(int(count), int(seed), tuple(kinds) or KINDS)
