"""Functions and classes, where they are defined."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.frames import Frame
from ddpify.understanding.language import calls
from ddpify.understanding.values import Bound, Class, Function, Instance, Scope, Value, value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState


def function(run: RunState, node: cst.FunctionDef) -> None:
    """A ``def``: the same function object in every pass."""
    made = value(run.function(node))
    run.bind(node.name.value, made)
    run.bind(node.name.value, _decorated(run, node, made))


def _decorated(run: RunState, node: cst.FunctionDef | cst.ClassDef, made: Value) -> Value:
    """What the project's own decorators make of a function or class; a library's keep it."""
    targets = [(one, run.eval(one.decorator)) for one in node.decorators]
    for decorator, target in reversed(targets):
        if any(target.of(Function, Bound, Class)):
            result = calls.call(run, decorator.decorator, target, [made], {})
            made = result if any(result.of(Function, Bound, Class, Instance)) else made
    return made


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
    run.bind(node.name.value, _decorated(run, node, value(_class_once(run, made))))


def _class_once(run: RunState, made: Class) -> Class:
    """The same class object in every pass, so that values compare equal."""
    known = run.classes.setdefault(made.node, made)
    known.scope, known.bases = made.scope, made.bases
    for held in made.scope.names.values():
        for method in held.of(Function):
            assert isinstance(method, Function)
            method.owner = known
    return known
