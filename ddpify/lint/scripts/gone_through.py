"""Which loaders a loop goes through."""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.values import Data, Instance


def loaders_of(script: Script, loop: cst.For) -> list[Instance]:
    """The loaders of ``for x in loader``; else those that ``next(batches)`` takes from in it."""
    named = script.loaders_in(loop.iter)
    if named:
        return named
    taken = [
        one
        for one in script.structure_of(loop).inside(loop.body, cst.Call)
        if "builtins.next" in script.names(one.func)
    ]
    held = (
        loader for one in taken for data in script.value(one).of(Data) for loader in data.loaders
    )
    return list(dict.fromkeys(held))
