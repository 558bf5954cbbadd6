"""Flags that say whether a run is distributed: wrappers and samplers stand under them, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.libraries.distributed import INIT_GROUP, SAMPLER
from ddpify.understanding.syntax import parameters
from ddpify.understanding.taint.call_graph import passed
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.values import Bound, Function

if TYPE_CHECKING:
    from ddpify.lint.scripts.script import Script


def is_flag_of_wrapping(
    script: Script, test: cst.BaseExpression, function: Function, call: cst.Call
) -> bool:
    """Whether a test in a function holds wherever a model is wrapped, by this call of it."""
    if not isinstance(test, (cst.Name, cst.Attribute)) or script.control.asks_rank(test):
        return False
    if isinstance(test, cst.Name) and _is_told_no(script, test.value, function, call):
        return False
    return not script.once(_flags).isdisjoint(_slots(script, test))


def _flags(script: Script) -> frozenset[Location]:
    """The slots of the tests that lead to wrappers, samplers and process groups."""
    places = [wrap.site.node for wrap in script.wraps]
    places += script.calls(INIT_GROUP, SAMPLER, everywhere=True)
    return frozenset(
        slot
        for place in places
        for guard in script.control.guards(place)
        if guard.positive and isinstance(guard.test, (cst.Name, cst.Attribute))
        for slot in _slots(script, guard.test)
    )


def _slots(script: Script, test: cst.Name | cst.Attribute) -> set[Location]:
    """Where a flag is kept, also by the names that it is handed on by."""
    found = set(script.control.locations(test))
    todo = [*found]
    while todo:
        for edge in script.flow.edges_into({todo.pop()}):
            if isinstance(edge.value, (cst.Name, cst.Attribute)):
                fresh = set(script.control.locations(edge.value)) - found
                found |= fresh
                todo += fresh
    return found


def _is_told_no(script: Script, name: str, function: Function, call: cst.Call) -> bool:
    """Whether a call, or the default, makes a parameter False or None."""
    given = [one for one in parameters(function.node) if one.name.value == name]
    if not given:
        return False
    bound = any(isinstance(one, Bound) for one in script.value(call.func).atoms)
    told = [arg.value for arg, to in passed(function, int(bound), call) if to == name]
    values = told or [one.default for one in given if one.default is not None]
    held = [script.value(one) for one in values]
    return bool(held) and all(
        len(one.atoms) == 1 and one.constant() in (False, None) for one in held
    )
