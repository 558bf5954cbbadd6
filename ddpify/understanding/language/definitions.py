"""Functions and classes, where they are defined."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.frames import Frame
from ddpify.understanding.values import Class, Function, Scope, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def function(run: RunState, node: cst.FunctionDef) -> None:
    """A ``def``: the same function object in every pass."""
    scope = run.frame.scope
    made = run.functions.setdefault(node, Function(node, run.module, scope))
    made.scope = scope
    run.bind(node.name.value, value(made))
    for decorator in node.decorators:
        run.eval(decorator.decorator)


def class_(run: RunState, node: cst.ClassDef) -> None:
    """A ``class``, whose body runs in a scope of its own."""
    bases = [run.eval(arg.value) for arg in node.bases]
    scope = Scope(kind="class", parent=run.frame.scope)
    made = Class(node, run.module, scope, bases)
    inside = run.frame.in_forward
    run.frames.append(Frame(run.module, scope, run.frame.call, in_forward=inside))
    try:
        run.block(node.body)
    finally:
        run.frames.pop()
    run.bind(node.name.value, value(_class_once(run, made)))


def _class_once(run: RunState, made: Class) -> Class:
    """The same class object in every pass, so that values compare equal."""
    known = run.classes.setdefault(made.node, made)
    known.scope, known.bases = made.scope, made.bases
    for held in made.scope.names.values():
        for method in held.of(Function):
            assert isinstance(method, Function)
            method.owner = known
    return known
