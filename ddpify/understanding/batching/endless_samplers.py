"""Samplers of the script's own that never end: their loaders have no short last batch."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import dotted
from ddpify.understanding.values import UNKNOWN, Class, Function, Instance, Scope, Value


def never_ends(sampler: Value) -> bool:
    """Whether a loader's sampler surely never ends."""
    made = [a for a in sampler.atoms if isinstance(a, Instance) and isinstance(a.type, Class)]
    found = [f for one in made for f in (one.type.find("__iter__") or UNKNOWN).of(Function)]  # type: ignore[union-attr]
    return bool(found) and len(made) == len(sampler.atoms) and all(map(_yields_for_ever, found))


def _yields_for_ever(function: Function) -> bool:
    """Whether a generator goes on for ever, or a function returns such a one."""
    if function.node in function.module.structure.generators:
        return any(_is_endless_loop(node) for node in _outermost(function.node))
    returned = [n.value for n in walk(function.node) if isinstance(n, cst.Return)]
    made = [_generator(function.scope, one) for one in returned if one is not None]
    return bool(made) and all(one is not None and _yields_for_ever(one) for one in made)


def _outermost(function: cst.FunctionDef | cst.Lambda) -> Iterator[cst.CSTNode]:
    body = function.body
    yield from body.body if isinstance(body, cst.IndentedBlock) else ()


def _is_endless_loop(node: cst.CSTNode) -> bool:
    if not isinstance(node, cst.While):
        return False
    always = isinstance(node.test, cst.Name) and node.test.value == "True"
    return always and not any(isinstance(one, (cst.Break, cst.Return)) for one in walk(node))


def _generator(scope: Scope | None, node: cst.BaseExpression) -> Function | None:
    """The function that ``iter(f(...))`` or ``f(...)`` runs."""
    while isinstance(node, cst.Call) and dotted(node.func) == "iter" and node.args:
        node = node.args[0].value
    name = node.func.value if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) else ""
    while scope is not None and name not in scope.names:
        scope = scope.parent
    atoms = scope.names[name].atoms if scope is not None else ()
    return atoms[0] if len(atoms) == 1 and isinstance(atoms[0], Function) else None
