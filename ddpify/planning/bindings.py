"""Where a script gives a name to an object that code outside its reach makes."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Site
from ddpify.understanding.libraries.object_kinds import is_loader
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import UNPACKED, code_of, dotted, names_of
from ddpify.understanding.values import UNKNOWN, Instance


def bindings(
    plan: Plan, held: Instance, *, kept: bool = False
) -> Iterator[tuple[Site, cst.BaseExpression]]:
    """The assignments of a call's result by which names come to hold an object, and the names.

    ``kept``: and of what a collection keeps, as in ``model = models[name]``.

    Each site's node is the whole statement, after which the name can be bound anew.
    """
    files = plan.editable
    sites = sorted(plan.sites(cst.Assign), key=lambda site: (files.index(site.module), site.line))
    for site in sites:
        node = site.node
        if not isinstance(node, cst.Assign) or not _is_made(node.value, kept=kept):
            continue
        if _comes_from_itself(plan, held, node.value):
            continue
        for target in node.targets:
            for name in names_of(target.target):
                # An attribute is not evaluated where it is set.
                seen = node.value if isinstance(target.target, cst.Attribute) else name
                value = plan.facts.values.get(seen)
                if value is not None and held in value.atoms:
                    yield Site(site.module.statement(node), site.module), name


def _is_made(source: cst.BaseExpression, *, kept: bool) -> bool:
    """Whether an expression is a call, one of two, or several of them as a tuple."""
    if isinstance(source, cst.Tuple):
        return all(_is_made(element.value, kept=kept) for element in source.elements)
    return isinstance(source, (cst.Call, cst.IfExp)) or (kept and isinstance(source, cst.Subscript))


def loader_name(plan: Plan, site: Site, loaders: frozenset[Instance]) -> str:
    """Code that stands for just these loaders at a place; empty where nothing does."""
    made = {loader.place for loader in loaders}
    structure = site.module.structure
    function = structure.function(site.node)
    own = _names_of_loaders(plan, function or structure.tree)
    found = next((code for code, places in own.items() if places == made), "")
    if found or function is None:
        return found
    shared = _globals(structure.tree) - own.keys()
    around = _names_of_loaders(plan, structure.tree)
    return next((c for c, places in around.items() if places == made and c in shared), "")


def _names_of_loaders(
    plan: Plan, scope: cst.CSTNode
) -> dict[str, set[tuple[cst.CSTNode | int, ...]]]:
    """By their code, names in a scope with the places of the loaders that they stand for."""
    found: dict[str, set[tuple[cst.CSTNode | int, ...]]] = {}
    for node in walk(scope):
        if isinstance(node, (cst.Name, cst.Attribute)) and dotted(node) is not None:
            held = plan.facts.values.get(node, UNKNOWN)
            loaders = {a.place for a in held.of(Instance) if is_loader(a)}
            if held:
                found.setdefault(code_of(node), set()).update(loaders or {(node,)})
    return found


def _globals(tree: cst.Module) -> set[str]:
    """The names that the top level of a module assigns."""
    return {
        name.value
        for line in tree.body
        if isinstance(line, cst.SimpleStatementLine)
        for part in line.body
        if isinstance(part, cst.Assign)
        for target in part.targets
        for name in names_of(target.target)
        if isinstance(name, cst.Name)
    }


def _comes_from_itself(plan: Plan, held: Instance, source: cst.BaseExpression) -> bool:
    """Whether an object is asked for what it gives: the name may hold a part, as of a model."""
    return any(
        isinstance(node, (cst.Name, cst.Attribute))
        and held in plan.facts.values.get(node, UNKNOWN).atoms
        for node in walk(source)
    )


def is_bound_name(site: Site) -> bool:
    """Whether a name is one that an assignment or a loop binds, by itself or among others."""
    node, parents = site.node, site.module.parents
    if not isinstance(node, cst.Name):
        return False
    while isinstance(parents[node], (cst.Element, *UNPACKED)):
        node = parents[node]
    parent = parents[node]
    looped = isinstance(parent, cst.For) and parent.target is node
    return looped or isinstance(parent, cst.AssignTarget)
