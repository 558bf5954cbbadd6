"""The names that a script has for a model at the places where it shapes one."""

from __future__ import annotations

import re

import libcst as cst

from ddpify.understanding.definite_assignment import target_names
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import UNPACKED, code_of


def name_of_model(node: cst.CSTNode, module: ModuleFile) -> str | None:
    """``model`` of ``model.to(d)``, ``model.fc = ...``, ``model = ...``, ``for p in model....``."""
    if isinstance(node, cst.Name):  # profile(model, ...)
        return node.value
    statement = node
    while not isinstance(statement, (cst.Assign, cst.Expr, cst.For, cst.BaseStatement)):
        statement = module.parents[statement]
    if isinstance(node, cst.Attribute):  # model.fc = ..., or p.requires_grad = ...
        frozen = node.attr.value in ("requires_grad", "requires_grad_")
        return _out_of_loops(_root(node.value), node, module) if frozen else code_of(node.value)
    if isinstance(statement, cst.Assign):
        target = _target_of(statement, node, module)
        return code_of(target) if isinstance(target, (cst.Name, cst.Attribute)) else None
    receiver = _receiver(node)
    if receiver is None:
        return None
    root = _root(receiver)
    outside = _out_of_loops(root, node, module)
    return code_of(receiver) if outside == root else outside


def receiver_of(node: cst.CSTNode) -> str | None:
    """``one`` of ``one.to(d)``, also where ``one`` is what a loop takes out of ``models``."""
    receiver = _receiver(node)
    return None if receiver is None else code_of(receiver)


def _receiver(node: cst.CSTNode) -> cst.BaseExpression | None:
    """What the methods of an expression are called of, or what ``setattr()`` sets, by its name."""
    receiver: cst.CSTNode = node
    if isinstance(node, cst.Call) and code_of(node.func) == "setattr" and node.args:
        receiver = node.args[0].value
    while isinstance(receiver, cst.Call) and isinstance(receiver.func, cst.Attribute):
        receiver = receiver.func.value
    return receiver if isinstance(receiver, (cst.Name, cst.Attribute)) else None


def binds(loop: cst.For | cst.While, name: str) -> bool:
    """Whether each round of a loop gives a name another object, and not what it makes of the last.

    ``b = make()`` does so for ``b.net``, too; ``model = freeze(model)`` does not.
    """
    owners = {name[: match.start()] for match in re.finditer(r"\.|$", name)} - {"self"}
    if isinstance(loop, cst.For) and owners & {*target_names(loop.target)}:
        return True
    return any(
        isinstance(part, cst.Assign)
        and any(code_of(target.target) in owners for target in part.targets)
        and not any(_is_name(n) and code_of(n) in owners for n in walk(part.value))
        for part in walk(loop.body)
    )


def _is_name(node: cst.CSTNode) -> bool:
    return isinstance(node, (cst.Name, cst.Attribute))


def _target_of(
    statement: cst.Assign, node: cst.CSTNode, module: ModuleFile
) -> cst.BaseExpression | None:
    """``b`` of ``a, b = first, second`` for a node in ``second``; else all that is assigned to."""
    target, given = statement.targets[0].target, statement.value
    if not isinstance(target, UNPACKED) or not isinstance(given, cst.Tuple):
        return target
    above = {node, *module.structure.up(node)}
    places = [index for index, element in enumerate(given.elements) if element in above]
    alike = len(target.elements) == len(given.elements)
    return target.elements[places[0]].value if places and alike else None


def _out_of_loops(name: str, node: cst.CSTNode, module: ModuleFile) -> str | None:
    """``model`` for the ``p`` of ``for p in model.parameters():``; None where that has no name."""
    for above in module.structure.up(node):
        loop = above.for_in if isinstance(above, cst.BaseSimpleComp) else above
        if isinstance(loop, (cst.For, cst.CompFor)) and name in target_names(loop.target):
            taken_from = _source(loop.iter, loop.target, name)
            if taken_from is None:
                return None
            name = _root(taken_from)
    return name


def _source(
    given: cst.BaseExpression, target: cst.BaseExpression, name: str
) -> cst.BaseExpression | None:
    """What a loop goes through the parts of: ``model`` of ``list(model.children())[:4]``."""
    while isinstance(given, (cst.Call, cst.Subscript)):
        if isinstance(given, cst.Subscript):
            given = given.value
        elif isinstance(given.func, cst.Attribute) and given.func.attr.value != "chain":
            given = given.func.value
        elif not given.args:
            return None
        else:  # enumerate(...), filter(..., ...), zip(..., ...)
            given = given.args[_place(given, target, name)].value
    return given if isinstance(given, (cst.Name, cst.Attribute)) else None


def _place(call: cst.Call, target: cst.BaseExpression, name: str) -> int:
    """Which of the arguments of a call a loop's name goes through."""
    beside = target.elements if isinstance(target, UNPACKED) else ()
    if code_of(call.func) == "zip" and len(beside) == len(call.args):
        return [name in target_names(element.value) for element in beside].index(True)
    return -1


def _root(part: cst.BaseExpression) -> str:
    """``model`` of ``model.layers[0]``, and ``self.model`` of ``self.model.layers[0]``."""
    owners = [part]
    while isinstance(owners[-1], (cst.Attribute, cst.Subscript)):
        owners.append(owners[-1].value)
    own = len(owners) > 1 and code_of(owners[-1]) == "self"
    return code_of(owners[-2] if own else owners[-1])
