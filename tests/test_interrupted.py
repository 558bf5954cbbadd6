"""Ctrl-C ends lint and convert at once, with exit code 130 and nothing half-written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

AT_WORK = 3.0  # seconds until the command is certainly past its start
PROMPT = 60.0  # seconds in which it ends, on a machine that is busy


def program(lines: int) -> str:
    """A script whose loss is the sum of so many terms."""
    return "\n".join(
        [
            "import torch",
            "from torch.utils.data import DataLoader, TensorDataset",
            "net = torch.nn.Linear(2, 1)",
            "optimizer = torch.optim.SGD(net.parameters(), 0.1)",
            "data = TensorDataset(torch.randn(8, 2), torch.randn(8, 1))",
            "for x, y in DataLoader(data, batch_size=4):",
            "    loss = (net(x) - y).pow(2).mean()",
            *(f"    loss = loss + (net(x * {n}) - y).pow(2).mean()" for n in range(lines)),
            "    optimizer.zero_grad()",
            "    loss.backward()",
            "    optimizer.step()",
            "",
        ]
    )


LONG = program(8000)


def is_alive(group: int) -> bool:
    """Whether any process of a group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def interrupted(folder: Path, *arguments: str) -> tuple[int, str]:
    """The exit code and stderr of a command whose whole process group gets SIGINT."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ddpify", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell that starts the tests in the background lets them ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    time.sleep(AT_WORK)
    assert process.poll() is None, process.communicate()
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=PROMPT)
    end = time.monotonic() + PROMPT
    while is_alive(process.pid):
        assert time.monotonic() < end
        time.sleep(0.05)
    return process.returncode, said


@pytest.mark.parametrize(
    "arguments",
    [
        ("lint", ".", "--no-cache", "--jobs", "1"),
        ("lint", ".", "--no-cache", "--jobs", "2"),
        ("lint", ".", "--no-cache", "--fix", "--output-file", "findings.txt"),
        ("convert", "a.py", "-o", "out.py"),
        ("convert", ".", "--entry", "a.py", "-o", "../out"),
    ],
    ids=" ".join,
)
def test_ctrl_c(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    for name in ("a.py", "b.py"):
        (folder / name).write_text(LONG)
    assert interrupted(folder, *arguments) == (130, "")
    assert sorted(path.name for path in folder.iterdir()) == ["a.py", "b.py"]
    assert [path.name for path in tmp_path.iterdir()] == ["project"]
    assert (folder / "a.py").read_text() == LONG
