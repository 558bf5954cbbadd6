"""Rank 0's value for all ranks, where each would see or make up its own."""

from __future__ import annotations

import libcst as cst

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Site
from ddpify.understanding.libraries.entropy import EACH_ON_ITS_OWN


def on_main(plan: Plan) -> str:
    """The header of what rank 0 does alone."""
    return f"if {plan.options.alias}.is_main():"


def first_of_node(plan: Plan) -> str:
    """The header of what the first rank of each node does before the others."""
    return f"with {plan.options.alias}.local_main_first():"


def on_each_node(plan: Plan, edits: Edits, site: Site) -> bool:
    """Whether every way to a place leads through what the first rank of each node does first."""
    seen: set[cst.CSTNode] = set()
    todo = [site]
    while todo:
        structure, node = todo[-1].module.structure, todo.pop().node
        if any(edits.blocks.get(one) == first_of_node(plan) for one in structure.up(node)):
            continue
        function = structure.function(node)
        callers = plan.facts.callers.get(function, ()) if function is not None else ()
        if not callers:
            return False
        if function not in seen:
            seen.update([function] if function is not None else [])
            todo += callers
    return True


def share(plan: Plan, edits: Edits, site: Site, text: str, rule: str) -> None:
    """Put ``broadcast(x)`` for ``x``, once."""
    function = f"{plan.options.alias}.broadcast"
    if function not in edits.wrapped.get(site.node, ()):
        edits.wrap(site.node, function)
        edits.note(site, text, rule=rule)


def on_all_ranks(plan: Plan, edits: Edits, site: Site) -> bool:
    """Whether all ranks come to a place of a file that may be changed, at the same time."""
    seen: set[cst.CSTNode] = set()
    todo = [site]
    while todo:
        one = todo.pop()
        if not one.module.editable or not _is_shared(plan, edits, one):
            return False
        function = one.module.structure.function(one.node)
        if function is not None and function not in seen:
            seen.add(function)
            todo += plan.facts.callers.get(function, ())
    return True


def _is_shared(plan: Plan, edits: Edits, site: Site) -> bool:
    for node in site.module.structure.up(site.node):
        if node in edits.blocks or node in edits.parts or isinstance(node, cst.Lambda):
            return False
        if isinstance(node, cst.FunctionDef) and node.name.value in EACH_ON_ITS_OWN:
            return False
    return True
