"""Numbers of processes, as several commands take them."""

from __future__ import annotations

from ddpify.errors import DdpifyError


def counts(text: str) -> list[int]:
    """``2,3`` as numbers of processes."""
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1:
        raise DdpifyError(
            f"not numbers of processes: {text!r}",
            remedy="use --nproc 2 or --nproc 2,3",
            exit_code=2,
        )
    return counts
