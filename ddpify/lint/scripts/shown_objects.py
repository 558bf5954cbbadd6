"""What is shown of an object of the project: what its ``__str__`` gives.

Unless that, or the properties that the text around it names, has been reduced for this object.
"""

from __future__ import annotations

from collections.abc import Iterator
from string import Formatter

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
    is told a rank's own numbers, but for what was reduced for that object before.
    """
    told = [one for one in _objects(script, node) if meters.is_told(one)]
    given = {one: [*_given(one)] for one in told}
    if not any(given.values()):
        yield node
    read = _attributes(script, node)
    for one, texts in given.items():
        shown = [*_properties(one, read)] or texts
        if not all(script.flow.is_reduced_before(one, text, node) for text in shown):
            for text in texts:
                yield from _told_in(script, meters, text, node)


def _told_in(
    script: Script, meters: Meters, text: cst.BaseExpression, read: cst.BaseExpression
) -> Iterator[cst.BaseExpression]:
    """The values in the text of an object that is read somewhere: those in the texts of the objects
    that it holds, as a logger its meters, in their place.

    What an object says of itself while batches go through it is how far it has come.
    """
    alone = isinstance(read, cst.Name) and not _is_of_self(script, read)
    for part in _put_together(script, text):
        held = [one for one in _objects(script, part) if alone and meters.is_told(one)]
        inner = [
            (one, x) for one in held for x in _given(one) if x in script.owners and x is not text
        ]
        if not inner:
            yield part
        for one, other in inner:
            if not script.flow.is_reduced_before(one, other, read):
                yield from displayed(other)


def _is_of_self(script: Script, node: cst.Name) -> bool:
    function = script.structure_of(node).function(node)
    first = function.params.params[:1] if function is not None else ()
    return any(one.name.value == node.value == "self" for one in first)


def _put_together(script: Script, text: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The values in a text, also those in a list of texts that are joined."""
    joined = _joined(text)
    if joined is None:
        yield from displayed(text)
        return
    function = script.structure_of(text).function(text)
    for edge in script.flow.edges_into({*script.control.locations(joined)}):
        same = script.structure_of(edge.node).function(edge.node) is function
        if same and edge.value is not None:
            yield from displayed(edge.value)


def _joined(text: cst.BaseExpression) -> cst.Name | None:
    """``texts`` of ``", ".join(texts)``."""
    if not isinstance(text, cst.Call) or not isinstance(text.func, cst.Attribute):
        return None
    given = text.args[0].value if len(text.args) == 1 else None
    return given if text.func.attr.value == "join" and isinstance(given, cst.Name) else None


def _objects(script: Script, node: cst.BaseExpression) -> list[Instance]:
    """The objects of the project that an expression may be, or that ``str()`` is asked of."""
    if isinstance(node, cst.Call) and script.names(node.func) & _TO_TEXT and node.args:
        node = node.args[0].value
    return [one for one in script.instances(node) if isinstance(one.type, Class)]


def _attributes(script: Script, node: cst.BaseExpression) -> list[str]:
    """What ``"{loss.avg:.3f}".format(loss=node)`` reads of a value; nothing where it shows all."""
    parents = script.structure_of(node).parents
    given = parents.get(node)
    call = parents.get(given) if isinstance(given, cst.Arg) and given.keyword is not None else None
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return []
    text = script.value(call.func.value).constant()
    if not isinstance(text, str) or not isinstance(given, cst.Arg) or given.keyword is None:
        return []
    name = given.keyword.value
    read = [one.partition(".") for _, one, _, _ in Formatter().parse(text) if one is not None]
    shown = [rest for first, _, rest in read if first == name]
    return shown if all(shown) else []


def _properties(one: Instance, names: list[str]) -> Iterator[cst.BaseExpression]:
    """What the properties of an object return; nothing where not all are properties."""
    assert isinstance(one.type, Class)
    found: list[cst.BaseExpression] = []
    for name in names:
        held = one.type.find(name)
        functions = [x.node for x in held.of(Function)] if held is not None else []
        given = [text for x in functions if _is_property(x) for text in _returned(x)]
        if not given:
            return
        found += given
    yield from found


def _is_property(function: cst.FunctionDef | cst.Lambda) -> bool:
    made = function.decorators if isinstance(function, cst.FunctionDef) else ()
    return any(isinstance(x.decorator, cst.Name) and x.decorator.value == "property" for x in made)


def _given(one: Instance) -> Iterator[cst.BaseExpression]:
    """What the method returns that makes a text of an object."""
    assert isinstance(one.type, Class)
    held = one.type.find("__str__") or one.type.find("__repr__")
    for function in held.of(Function) if held is not None else ():
        yield from _returned(function.node)


def _returned(function: cst.FunctionDef | cst.Lambda) -> Iterator[cst.BaseExpression]:
    for inner in walk(function.body):
        if isinstance(inner, cst.Return) and inner.value is not None:
            yield inner.value
