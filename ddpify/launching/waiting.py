"""Commands that run at once, one for each host, until all have ended or too many have failed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence

_PAUSE = 0.1
_GRACE_SECONDS = 35.0
"""torchrun gives its processes 30 s to end before it kills them."""


def over_all(commands: Sequence[Sequence[str]], hosts: Sequence[str], least: int) -> int:
    """Run a command for each host, and say which of them fail. Returns an exit code.

    Args:
        commands: What to start, in the order of ``hosts``.
        hosts: Their names.
        least: The fewest hosts that go on when others have failed; with fewer, all are ended.
    """
    running = [subprocess.Popen(command, stdin=subprocess.DEVNULL) for command in commands]
    try:
        return _wait(dict(zip(hosts, running, strict=True)), least)
    finally:
        _end(running)


def _wait(running: dict[str, subprocess.Popen[bytes]], least: int) -> int:
    """0 where enough hosts have ended well, else the first code of one that has not."""
    codes: dict[str, int] = {}
    while len(codes) < len(running):
        for host, process in running.items():
            code = process.poll()
            if code is None or host in codes:
                continue
            codes[host] = code = code if code >= 0 else 128 - code  # as a shell has it for signals
            if code:
                left = len(running) - sum(map(bool, codes.values()))
                print(_failure(host, code, left, least), file=sys.stderr, flush=True)
                if left < least:
                    return next(code for code in codes.values() if code)
        time.sleep(_PAUSE)
    return 0


def _failure(host: str, code: int, left: int, least: int) -> str:
    reached = " (ssh itself fails with 255)" if code == 255 else ""
    rest = f"{left} host(s) go on" if left >= least else "the others are ended"
    return f"ddpify: {host} ended with exit code {code}{reached}; {rest}"


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.terminate()
    until = time.monotonic() + _GRACE_SECONDS
    for process in processes:
        try:
            process.wait(max(until - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            process.kill()
