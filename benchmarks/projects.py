"""What ``ddpify lint`` and ``convert`` take on checkouts of public projects, beside other linters.

``python -m benchmarks.scaling --projects FOLDER...`` prints for each folder the lines of its Python
files, the CPU seconds and the memory of one cold lint in one process, and how many times as long as
``ruff check`` and TorchFix that is, where these are installed. ``--entries FILE...`` prints what
converting each of them takes, and whether it converts. All are whole processes, start included.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.lint_speed import cpu

DDPIFY = [sys.executable, "-m", "ddpify"]
OTHERS = {
    "ruff": ["ruff", "check", "--no-cache", "--isolated", "--exit-zero"],
    "torchfix": ["torchfix", "--select=ALL"],
}


def lines_in(folder: Path) -> int:
    """The lines of all Python files in a folder."""
    return sum(path.read_bytes().count(b"\n") for path in folder.rglob("*.py") if path.is_file())


def linted(folder: Path) -> str:
    """A line about linting a folder."""
    lines = lines_in(folder)
    command = [*DDPIFY, "lint", "--no-cache", "--jobs", "1", "--exit-zero", "."]
    seconds, memory = cpu(command, 1, folder)
    beside = "".join(f"  {name} x {seconds / took:.1f}" for name, took in _others(folder))
    speed = f"{lines / seconds:6,.0f} lines/s {memory:5.0f} MB"
    return f"{folder.name:32}{lines:8,} lines {seconds:7.2f} s {speed}{beside}"


def _others(folder: Path) -> Iterator[tuple[str, float]]:
    for name, command in OTHERS.items():
        if shutil.which(command[0]) is not None:
            yield name, cpu([*command, "."], 1, folder)[0]


def converted(entry: Path) -> str:
    """A line about converting one script."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.py")
        command = [*DDPIFY, "convert", entry.name, "-o", str(out)]
        seconds, memory = cpu(command, 1, entry.parent)
        outcome = "converts" if out.exists() else "is refused"
    lines = entry.read_bytes().count(b"\n")
    name = f"{entry.parent.name}/{entry.name}"
    return f"{name:48}{lines:6,} lines {seconds:7.2f} s {memory:5.0f} MB  {outcome}"


def measure(projects: Sequence[Path], entries: Sequence[Path]) -> None:
    """Print a line for each project and each entry."""
    for project in projects:
        print(linted(project.resolve()), flush=True)
    for entry in entries:
        print(converted(entry.resolve()), flush=True)
