"""Say where the ranks may disagree on an order or a draw, which no edit here can settle."""

from __future__ import annotations

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Site
from ddpify.understanding.libraries.entropy import EACH_ON_ITS_OWN, own_draws
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.unordered import Ordering


def edit(plan: Plan, edits: Edits) -> None:
    """Note collections without a fixed order, and generators that no seed makes the same."""
    _orders(plan, edits)
    for site in own_draws(plan.facts):
        function = site.module.structure.function(site.node)
        each = function is not None and function.name.value in EACH_ON_ITS_OWN
        if site.module.editable and not each and not _has_one_seed(plan, edits, site):
            edits.note(
                site,
                "each process draws its own numbers here: give it a seed, so that the ranks agree"
                " on what they make of them",
                rule="rank-dependent-dataset",
                attention=True,
            )


def _has_one_seed(plan: Plan, edits: Edits, site: Site) -> bool:
    """Whether all ranks are given rank 0's seed here."""
    function = f"{plan.options.alias}.broadcast"
    return any(function in edits.wrapped.get(node, ()) for node in walk(site.node))


def _orders(plan: Plan, edits: Edits) -> None:
    ordering = Ordering(plan.facts, plan.flow.structures, plan.flow)
    for module in plan.editable:
        for node in ordering.counted(module):
            edits.note(
                Site(node, module),
                "this order differs between processes or nodes: put sorted() around it, so that"
                " all ranks have the same one",
                rule="unordered-iteration-defines-state",
                attention=True,
            )
