"""Calls in which the ranks meet: collectives, and functions of the project that always run one."""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.distributed_flags import is_flag_of_wrapping
from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.understood import ALL_COLLECTIVES
from ddpify.understanding.language.overloads import fails
from ddpify.understanding.libraries.distributed import INIT_GROUP, has_group
from ddpify.understanding.taint.call_graph import called
from ddpify.understanding.taint.sources import WORLD

_STATE = {"torch.distributed.is_initialized", "torch.distributed.is_available"}
IGNORED = {INIT_GROUP}


def reached_collective(script: Script, call: cst.Call) -> str | None:
    """The collective that a call is or, through the project's functions, leads to on every path."""
    if fails(call, script.value(call.func).atoms):
        return None
    direct = script.names(call.func) & ALL_COLLECTIVES - IGNORED
    if direct:
        return min(direct)
    for function in called(script.facts, call):
        if script.control.is_cached(function.node):
            continue
        for name, inner in script.collectives(function.node):
            if (
                name not in IGNORED
                and all(
                    _asks_for_the_group(script, one.test)
                    or (one.positive and is_flag_of_wrapping(script, one.test, function, call))
                    or (one.left_early and _finds_nothing(script, one.test))
                    for one in script.control.guards(inner)
                )
                and not has_group(inner, {name})
            ):
                return name
    return None


def _asks_for_the_group(script: Script, test: cst.BaseExpression) -> bool:
    """``dist.is_initialized()``, ``world_size > 1``: on several ranks all have one answer."""
    if script.control.asks_rank(test):
        return False
    asked = (one for one in script.reached(test) if isinstance(one, cst.Call))
    return WORLD in script.labels(test) or any(script.names(one.func) & _STATE for one in asked)


def _finds_nothing(script: Script, test: cst.BaseExpression) -> bool:
    """``if not losses: return 0.0``: where a list that is filled has stayed empty."""
    if not isinstance(test, cst.UnaryOperation) or not isinstance(test.expression, cst.Name):
        return False
    edges = script.flow.edges_into(script.control.locations(test.expression))
    begun = [one.value for one in edges if not one.adds]
    return any(one.adds for one in edges) and all(isinstance(one, cst.List) for one in begun)


def collective_of(script: Script, call: cst.Call) -> str | None:
    """The short name of the collective that a call leads to, for all ranks of the run."""
    if has_group(call, script.names(call.func)):
        return None
    name = reached_collective(script, call)
    return name.rsplit(".", 1)[-1] if name is not None else None
