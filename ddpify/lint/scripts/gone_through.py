"""Which loaders a loop goes through."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.values import Data, Instance


def loaders_of(script: Script, loop: cst.For) -> list[Instance]:
    """The loaders of ``for x in loader``; else those that ``next(batches)`` takes from in it."""
    named = script.loaders_in(loop.iter)
    if named:
        return named
    held = (
        loader
        for one in _taken(script, loop)
        for data in script.value(one).of(Data)
        for loader in data.loaders
    )
    return list(dict.fromkeys(held))


def expressions_of(script: Script, loop: cst.For) -> list[cst.BaseExpression]:
    """What a loop takes batches from: what it goes over, or else what ``next()`` is asked of."""
    if script.loaders_in(loop.iter):
        return [loop.iter]
    taken = [one.args[0].value for one in _taken(script, loop) if one.args]
    return taken or [loop.iter]


def _taken(script: Script, loop: cst.For) -> list[cst.Call]:
    calls = script.structure_of(loop).inside(loop.body, cst.Call)
    return [one for one in calls if "builtins.next" in script.names(one.func)]


def in_place_of(script: Script, loop: cst.For, loader: Instance) -> list[Instance]:
    """Those of a loop's loaders that may stand where one does: of ``zip(a, b)``, those of ``a``."""
    for part in _side_by_side(script, loop.iter):
        found = script.loaders_in(part)
        if loader in found:
            return found
    return loaders_of(script, loop)


def _side_by_side(script: Script, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What a loop takes from in each round: all of ``enumerate(zip(a, b))``."""
    names = script.names(node.func) if isinstance(node, cst.Call) else ()
    if isinstance(node, cst.Call) and "builtins.zip" in names:
        yield from (one.value for one in node.args)
    elif isinstance(node, cst.Call) and node.args and "builtins.enumerate" in names:
        yield from _side_by_side(script, node.args[0].value)
