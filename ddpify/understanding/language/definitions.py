"""Functions and classes, where they are defined."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.arguments import Keywords
from ddpify.understanding.definition_sites import given_as
from ddpify.understanding.frames import Frame
from ddpify.understanding.language import calls
from ddpify.understanding.values import (
    REPLICATED,
    UNKNOWN,
    Bound,
    Class,
    Function,
    Instance,
    Scope,
    Tup,
    Value,
    value,
)

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
    keywords = {arg.keyword.value: run.eval(arg.value) for arg in node.keywords if arg.keyword}
    made = Class(node, run.module, scope, bases, keywords.pop("metaclass", UNKNOWN))
    inside = run.frame.in_forward
    run.enter(Frame(run.module, scope, run.frame.call, in_forward=inside))
    try:
        run.block(node.body)
    finally:
        run.leave()
    made = _class_once(run, made)
    _tell_metaclass(run, made)
    _tell_base(run, made, keywords)
    run.bind(node.name.value, _decorated(run, node, value(made)))


def _tell_metaclass(run: RunState, made: Class) -> None:
    """A metaclass may put further attributes into the body of a class, or into the class."""
    for name, first in (("__new__", made.metaclass), ("__init__", value(made))):
        found = made.find_in_metaclass(name) or UNKNOWN
        if not found.of(Function):
            continue
        body = run.instance(made.node, run.module, "dict")
        for attribute, held in list(made.scope.names.items()):
            body.hold(f"[{attribute!r}]", held)
        given = [first, REPLICATED, value(Tup(tuple(made.bases))), value(body)]
        run.call(made.node.name, value(*found.of(Function)), given, {})
        for key, held in body.attributes.items():
            if key.startswith("['"):
                made.scope.names[key[2:-2]] = held


def _tell_base(run: RunState, made: Class, keywords: Keywords) -> None:
    """A base is told of each class that derives from it, with what that says besides."""
    shown = {arg.keyword.value: arg.value for arg in made.node.keywords if arg.keyword}
    given = {name: given_as(held, shown[name]) for name, held in keywords.items()}
    for base in made.project_bases():
        found = base.find("__init_subclass__") or UNKNOWN
        bound = [Bound(made, function) for function in found.of(Function)]
        if bound:
            run.call(made.node.name, value(*bound), [], given)


def _class_once(run: RunState, made: Class) -> Class:
    """The same class object in every pass, so that values compare equal."""
    known = run.classes.setdefault(made.node, made)
    known.scope, known.bases, known.metaclass = made.scope, made.bases, made.metaclass
    for held in made.scope.names.values():
        for method in held.of(Function):
            assert isinstance(method, Function)
            method.owner = known
    return known
