"""Learning rates: where they are written, and whether by the number of processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

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


def is_rate(script: Script, target: cst.BaseExpression) -> bool:
    """``group["lr"]``, where that is no dictionary of the script's own that trains nothing."""
    return _asks_for_rate(target) and not _is_plain(script, target.value)


def _asks_for_rate(target: cst.BaseExpression) -> TypeGuard[cst.Subscript]:
    if not isinstance(target, cst.Subscript) or len(target.slice) != 1:
        return False
    part = target.slice[0].slice
    return (
        isinstance(part, cst.Index)
        and isinstance(part.value, cst.SimpleString)
        and content(part.value) == "lr"
    )


def _is_plain(script: Script, owner: cst.BaseExpression) -> bool:
    """Whether all that a name is set to are dictionaries without parameters, such as what is shown
    in a bar.
    """
    if not isinstance(owner, cst.Name):
        return False
    edges = script.flow.edges_into(script.control.locations(owner))
    made = [edge.node for edge in edges if not _sets_entry(edge.node)]
    return bool(made) and all(
        isinstance(one, cst.Assign) and _trains_nothing(script, one.value) for one in made
    )


def _sets_entry(node: cst.CSTNode) -> bool:
    """``shown["lr"] = rate``."""
    targets = node.targets if isinstance(node, cst.Assign) else ()
    return bool(targets) and all(isinstance(one.target, cst.Subscript) for one in targets)


def _trains_nothing(script: Script, node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.DictComp):
        return True
    if isinstance(node, cst.Call) and "builtins.dict" not in script.names(node.func):
        return False
    if not isinstance(node, (cst.Dict, cst.Call)):
        return False
    return "params" not in dict(_entries(script, node)) and not _is_copied(node)


def _is_copied(node: cst.Dict | cst.Call) -> bool:
    """``{**group}``, ``dict(group)``: it may have any entries."""
    parts = node.elements if isinstance(node, cst.Dict) else node.args
    return any(
        isinstance(one, cst.StarredDictElement)
        or (isinstance(one, cst.Arg) and one.keyword is None)
        for one in parts
    )
