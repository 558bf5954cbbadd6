"""Interrupted in the middle, verify leaves nothing behind: no process, no folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

PATIENCE = 120.0

# A shell that starts the tests in the background lets them ignore an interrupt.
NOT_IGNORED = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
    " from ddpify.start import main; sys.exit(main(sys.argv[1:]))"
)

pytestmark = pytest.mark.usefixtures("warm")


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_gone(pid: str) -> bool:
    """Whether a process has ended; its parent may not have asked for its status yet."""
    listed = subprocess.run(["ps", "-o", "stat=", "-p", pid], capture_output=True, text=True)
    return not listed.stdout.strip() or listed.stdout.startswith("Z")


@pytest.mark.parametrize(
    ("ended_by", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, -9)],
)
def test_nothing_is_left(tmp_path: Path, ended_by: signal.Signals, code: int) -> None:
    script, pid, home = tmp_path / "endless.py", tmp_path / "pid", tmp_path / "temporary"
    script.write_text(
        "import os\nopen('pid', 'w').write(f'{os.getpid()} ')\nwhile True:\n    pass\n"
    )
    home.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", NOT_IGNORED, "verify", str(script), str(script)],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: bool(_written(home)) or process.poll() is not None)
    (rank,) = _written(home)
    process.send_signal(ended_by)
    assert process.wait(PATIENCE) == code
    assert not pid.exists()
    # Where nothing could be done in the process itself, the one that it has started cleans up.
    wait_for(lambda: not list(home.iterdir()) or ended_by is not signal.SIGKILL)
    assert not list(home.iterdir())
    wait_for(lambda: is_gone(rank))


def _written(home: Path) -> list[str]:
    """The process id that the script in its copy has written, as soon as it is whole."""
    texts = [path.read_text() for path in home.rglob("pid")]
    return [text.strip() for text in texts if text.endswith(" ")]
