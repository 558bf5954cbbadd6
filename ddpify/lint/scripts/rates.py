"""Learning rates that are set by the number of processes."""

from __future__ import annotations

from ddpify.lint.scripts.script import Script
from ddpify.understanding.syntax import argument
from ddpify.understanding.taint.sources import ANY_RANK, DEVICES, WORLD

COUNTS = ANY_RANK | {WORLD, DEVICES}


def rate_knows_ranks(script: Script) -> bool:
    """Whether a learning rate depends on the number of ranks."""
    for call in script.calls("torch.optim.", everywhere=True):
        rate = argument(call, "lr", 1)
        if rate and script.flow.sources(rate.value, script.owners[call]) & COUNTS:
            return True
    return False
