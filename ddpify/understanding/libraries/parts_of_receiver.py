"""What a method takes from its own object: a layer of a model, one of its layers in a loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import names_of

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

_HANDING_ON = frozenset("enumerate zip reversed list tuple iter next getattr".split())


def is_one(run: RunState, called: cst.BaseExpression) -> bool:
    """Whether an expression is read from what the method around it is a method of."""
    function = run.module.function(called)
    if not isinstance(function, cst.FunctionDef) or not function.params.params:
        return False
    own = {function.params.params[0].name.value} if run.frame.receiver is not None else set()
    bound = [(name, source) for target, source in _bound(function) for name in _named(target)]
    while new := {name for name, source in bound if _comes_from(source, own)} - own:
        own |= new
    return _comes_from(called, own)


def _bound(function: cst.FunctionDef) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """What the function gives names to, with what that comes from."""
    for node in walk(function.body):
        if isinstance(node, cst.Assign):
            yield from ((one.target, node.value) for one in node.targets)
        elif isinstance(node, (cst.For, cst.CompFor)):
            yield node.target, node.iter


def _named(target: cst.BaseExpression) -> Iterator[str]:
    return (one.value for one in names_of(target) if isinstance(one, cst.Name))


def _comes_from(source: cst.BaseExpression, own: set[str]) -> bool:
    """Whether an expression is one of these names, or taken from one of them."""
    if isinstance(source, cst.Name):
        return source.value in own
    if isinstance(source, (cst.Attribute, cst.Subscript)):
        return _comes_from(source.value, own)
    if isinstance(source, cst.IfExp):
        return _comes_from(source.body, own) or _comes_from(source.orelse, own)
    if not isinstance(source, cst.Call):
        return False
    if isinstance(source.func, cst.Name) and source.func.value in _HANDING_ON:
        given = source.args[:1] if source.func.value == "getattr" else source.args
        return any(_comes_from(one.value, own) for one in given)
    return _comes_from(source.func, own)
