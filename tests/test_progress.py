"""Long work shows how far it is on a terminal, and nothing anywhere else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_interrupted import program

COMMANDS = {"file": ("lint", "train.py", "--no-cache"), "round": ("convert", "train.py", "--diff")}


# All work counts as long here, since how long it takes depends on the machine; and so does how long
# it takes to load what shows it.
AT_ONCE = (
    "import sys, rich.console, rich.progress; from ddpify import progress; progress._DELAY = 0.0;"
    " from ddpify.start import main; main(sys.argv[1:])"
)


def said(folder: Path, *arguments: str, terminal: bool, at_once: bool = False) -> str:
    """What a command writes to stderr, which is a terminal or a pipe."""
    reading, writing = pty.openpty() if terminal else os.pipe()
    started = ("-c", AT_ONCE) if at_once else ("-m", "ddpify")
    process = subprocess.Popen(
        [sys.executable, *started, *arguments],
        cwd=folder,
        env={**os.environ, "TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=writing,
    )
    os.close(writing)
    pieces = [*iter(lambda: _piece(reading), b"")]
    os.close(reading)
    assert process.wait() in (0, 1)
    return b"".join(pieces).decode()


def _piece(reading: int) -> bytes:
    try:
        return os.read(reading, 4096)
    except OSError:  # how a terminal says that nobody writes to it any more
        return b""


@pytest.mark.parametrize("unit", COMMANDS)
def test_long_work(unit: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(program(150))
    assert f"ddpify: {unit} " in said(tmp_path, *COMMANDS[unit], terminal=True, at_once=True)
    assert f"ddpify: {unit} " not in said(tmp_path, *COMMANDS[unit], terminal=False, at_once=True)


@pytest.mark.parametrize("unit", COMMANDS)
def test_short_work(unit: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\nprint(torch.zeros(2).sum())\n")
    assert f"ddpify: {unit} " not in said(tmp_path, *COMMANDS[unit], terminal=True)
