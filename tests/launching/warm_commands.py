"""A ``torchrun`` and a ``python`` for shell scripts, whose processes are forks with torch imported.

What this process starts itself, ``tests.warm`` serves. The two commands that are written here are
for what a shell starts: they ask this process for a fork, give it their streams, and end with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shlex
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.warm import Call, Server, split_command

ASK = """\
import json, os, socket, sys
address, *words = sys.argv[1:]
end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
end.connect(address)
asked = [words, dict(os.environ), os.getcwd(), f"/proc/{os.getpid()}/ns"]
socket.send_fds(end, [json.dumps(asked).encode()], [0, 1, 2])
status = int(end.recv(16))
os._exit(status if status >= 0 else 128 - status)
"""
COMMANDS = {"torchrun": ["-m", "torch.distributed.run"], "python": []}
LARGEST = 1 << 20


@contextlib.contextmanager
def warm_commands(server: Server | None) -> Iterator[Path]:
    """A folder with both commands; without a server, that of this interpreter."""
    if server is None:
        yield Path(sys.executable).parent
        return
    with tempfile.TemporaryDirectory(prefix="warm-") as made:
        folder = Path(made)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
            door.bind(str(folder / "door"))
            door.listen()
            _write_commands(folder)
            threading.Thread(target=_serve, args=(door, server), daemon=True).start()
            yield folder


def _write_commands(folder: Path) -> None:
    (folder / "ask.py").write_text(ASK)
    for name, words in COMMANDS.items():
        ask = [sys.executable, "-IS", str(folder / "ask.py"), str(folder / "door"), *words]
        (folder / name).write_text(f'#!/bin/sh\nexec {shlex.join(ask)} "$@"\n')
        (folder / name).chmod(0o755)


def _serve(door: socket.socket, server: Server) -> None:
    with contextlib.suppress(OSError):  # the door is closed
        while True:
            end, _ = door.accept()
            threading.Thread(target=_answer, args=(end, server), daemon=True).start()


def _answer(end: socket.socket, server: Server) -> None:
    """Fork what is asked for, and say how it ended; end it when whoever asked is gone."""
    with end:
        message, streams, _, _ = socket.recv_fds(end, LARGEST, 3)
        words, environment, folder, namespaces = json.loads(message)
        split = split_command([sys.executable, *words])
        assert split
        words, options, _ = split
        call = Call(words, options, namespaces, environment, folder, passed=[])
        pid = server.fork(call, streams)
        for stream in streams:
            os.close(stream)
        ready, _, _ = select.select([end.fileno(), os.pidfd_open(pid)], [], [])
        if end.fileno() in ready:
            os.kill(pid, signal.SIGTERM)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with contextlib.suppress(OSError):
            end.send(str(status).encode())
