"""Where a script gives a name to an object that code outside its reach makes."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Site
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import names_of
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
        sources = (cst.Call, cst.IfExp, cst.Subscript) if kept else (cst.Call, cst.IfExp)
        if not isinstance(node, cst.Assign) or not isinstance(node.value, sources):
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


def _comes_from_itself(plan: Plan, held: Instance, source: cst.BaseExpression) -> bool:
    """Whether an object is asked for what it gives: the name may hold a part, as of a model."""
    return any(
        isinstance(node, (cst.Name, cst.Attribute))
        and held in plan.facts.values.get(node, UNKNOWN).atoms
        for node in walk(source)
    )


def is_bound_name(site: Site) -> bool:
    """Whether a name is one that an assignment or a loop binds, by itself or in a tuple."""
    node, parents = site.node, site.module.parents
    if not isinstance(node, cst.Name):
        return False
    while isinstance(parents[node], (cst.Element, cst.Tuple)):
        node = parents[node]
    parent = parents[node]
    looped = isinstance(parent, cst.For) and parent.target is node
    return looped or isinstance(parent, cst.AssignTarget)
