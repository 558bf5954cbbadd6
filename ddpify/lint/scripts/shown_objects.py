"""What is shown of an object of the project: what its ``__str__`` gives."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.displays import displayed
from ddpify.lint.scripts.meters import Meters
from ddpify.lint.scripts.script import Script
from ddpify.understanding.structure import walk
from ddpify.understanding.values import Class, Function, Instance

_TO_TEXT = frozenset({"builtins.str", "builtins.repr", "builtins.format"})


def texts_of(
    script: Script, meters: Meters, node: cst.BaseExpression
) -> Iterator[cst.BaseExpression]:
    """The values that are shown of an expression: itself, or those in the text of an object that
    is told a rank's own numbers.
    """
    texts = [text for one in _objects(script, node) if meters.is_told(one) for text in _given(one)]
    if not texts:
        yield node
    for text in texts:
        yield from displayed(text)


def _objects(script: Script, node: cst.BaseExpression) -> list[Instance]:
    """The objects of the project that an expression may be, or that ``str()`` is asked of."""
    if isinstance(node, cst.Call) and script.names(node.func) & _TO_TEXT and node.args:
        node = node.args[0].value
    return [one for one in script.instances(node) if isinstance(one.type, Class)]


def _given(one: Instance) -> Iterator[cst.BaseExpression]:
    """What the method returns that makes a text of an object."""
    assert isinstance(one.type, Class)
    held = one.type.find("__str__") or one.type.find("__repr__")
    for function in held.of(Function) if held is not None else ():
        for inner in walk(function.node.body):
            if isinstance(inner, cst.Return) and inner.value is not None:
                yield inner.value
