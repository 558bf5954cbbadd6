"""Learning rates: where they are written, and whether by the number of processes."""

from __future__ import annotations

from collections.abc import Iterator

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


def group_rates(script: Script) -> Iterator[cst.BaseExpression]:
    """The rates of parameter groups, which are dictionaries that an optimizer is given."""
    for group in script.structure.all(cst.Dict, cst.Call):
        named = dict(_entries(script, group))
        if "params" in named and "lr" in named:
            yield named["lr"]


def _entries(
    script: Script, group: cst.Dict | cst.Call
) -> Iterator[tuple[str, cst.BaseExpression]]:
    if isinstance(group, cst.Dict):
        for one in group.elements:
            if isinstance(one, cst.DictElement) and isinstance(one.key, cst.SimpleString):
                yield str(content(one.key)), one.value
    elif "builtins.dict" in script.names(group.func):
        yield from ((one.keyword.value, one.value) for one in group.args if one.keyword)


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
