"""What an object is put together from: in a display, by names, by functions that return it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.call_graph import called

_DEEP = 4  # from one name or function to the next


def parts_of(
    script: Script, given: cst.BaseExpression, depth: int = _DEEP
) -> Iterator[cst.CSTNode]:
    """The nodes of an expression, and of what its entries are set to or returned by in its file."""
    if given not in script.structure.order or depth == 0:
        return
    yield from walk(given)
    for one in _entries(given):
        for made in (*_set_to(script, one), *_returned(script, one)):
            yield from parts_of(script, made, depth - 1)


def _entries(given: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The values of ``{"model": state}``, or the expression itself."""
    return [one.value for one in given.elements] if isinstance(given, cst.Dict) else [given]


def _set_to(script: Script, name: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What a name is set to in the same function."""
    if not isinstance(name, cst.Name):
        return []
    structure = script.structure
    return [
        edge.value
        for edge in script.flow.edges_into(script.control.locations(name))
        if edge.value is not None
        and not edge.passes
        and structure.function(edge.node) is structure.function(name)
    ]


def _returned(script: Script, call: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What the functions of the project that an expression calls give back."""
    return [
        one.value
        for function in (called(script.facts, call) if isinstance(call, cst.Call) else ())
        for one in walk(function.node.body)
        if isinstance(one, cst.Return) and one.value is not None
    ]
