"""Options of a call that may come out of a dictionary: ``DDP(net, **options)``."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.syntax import argument, content
from ddpify.understanding.taint.call_graph import called

_DEEP = 4  # from one name to the next


def option(
    script: Script, call: cst.Call, name: str, position: int | None = None
) -> cst.BaseExpression | None:
    """What a call is given for a parameter, also in a dictionary that it spreads."""
    given = argument(call, name, position)
    if given is not None:
        return given.value
    spread = [one.value for one in call.args if one.star == "**"]
    found = {told: None for one in spread for told in _entries(script, one, name, _DEEP)}
    return next(iter(found)) if len(found) == 1 else None


def _entries(
    script: Script, node: cst.BaseExpression, name: str, depth: int
) -> Iterator[cst.BaseExpression]:
    """What the entry of a name may be in the dictionaries that an expression may be."""
    if isinstance(node, cst.Dict):
        yield from _written(node, name)
    elif isinstance(node, cst.IfExp):
        for side in (node.body, node.orelse):
            yield from _entries(script, side, name, depth)
    elif isinstance(node, cst.Call) and "builtins.dict" in script.names(node.func):
        yield from (x.value for x in node.args if x.keyword and x.keyword.value == name)
    elif isinstance(node, cst.Call) and depth:
        for one in _returned(script, node):
            yield from _entries(script, one, name, depth - 1)
    elif isinstance(node, (cst.Name, cst.Attribute)) and depth:
        for edge in script.flow.edges_into(script.control.locations(node)):
            if edge.value is not None and edge.key == name:
                yield edge.value
            elif edge.value is not None and edge.key is None:
                yield from _entries(script, edge.value, name, depth - 1)


def _written(node: cst.Dict, name: str) -> Iterator[cst.BaseExpression]:
    for one in node.elements:
        key = one.key if isinstance(one, cst.DictElement) else None
        if isinstance(key, cst.SimpleString) and content(key) == name:
            yield one.value


def _returned(script: Script, call: cst.Call) -> Iterator[cst.BaseExpression]:
    for function in called(script.facts, call):
        for one in function.module.structure.inside(function.node.body, cst.Return):
            if one.value is not None:
                yield one.value
