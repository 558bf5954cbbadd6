"""A port for ranks of one machine to meet at."""

from __future__ import annotations

import contextlib
import secrets
import socket


def free_port() -> int:
    """A port that is free now, below the range from which connections get theirs.

    One that the system chooses may be some connection's by the time that rank 0 listens there.
    """
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            return port
