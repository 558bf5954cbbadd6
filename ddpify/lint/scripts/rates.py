"""Learning rates: where they are written, and whether by the number of processes."""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.syntax import argument, content
from ddpify.understanding.taint.sources import ANY_RANK, DEVICES, WORLD

COUNTS = ANY_RANK | {WORLD, DEVICES}


def rate_knows_ranks(script: Script) -> bool:
    """Whether a learning rate depends on the number of ranks."""
    for call in script.calls("torch.optim.", everywhere=True):
        rate = argument(call, "lr", 1)
        if rate and script.flow.sources(rate.value, script.owners[call]) & COUNTS:
            return True
    return False


def is_rate(target: cst.BaseExpression) -> bool:
    """``group["lr"]``."""
    if not isinstance(target, cst.Subscript) or len(target.slice) != 1:
        return False
    part = target.slice[0].slice
    return (
        isinstance(part, cst.Index)
        and isinstance(part.value, cst.SimpleString)
        and content(part.value) == "lr"
    )
