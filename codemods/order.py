"""Say where the ranks may disagree on an order or a draw, which no edit here can settle."""

from __future__ import annotations

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Site
from ddpify.understanding.labels.flow import Flow
from ddpify.understanding.labels.ordering import Ordering
from ddpify.understanding.libraries.entropy import own_draws
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import Structure

_FOR_EACH_SAMPLE = ("__getitem__", "__iter__", "forward", "__call__")


def edit(plan: Plan, edits: Edits) -> None:
    """Note collections without a fixed order, and generators that no seed makes the same."""
    structures = {file: Structure(file.tree) for file in plan.project.files}
    _orders(plan, edits, structures)
    for site in own_draws(plan.facts):
        function = structures[site.module].function(site.node)
        each = function is not None and function.name.value in _FOR_EACH_SAMPLE
        if site.module.editable and not each:
            edits.note(
                site,
                "each process draws its own numbers here: give it a seed, so that the ranks agree"
                " on what they make of them",
                rule="rank-dependent-dataset",
                attention=True,
            )


def _orders(plan: Plan, edits: Edits, structures: dict[ModuleFile, Structure]) -> None:
    ordering = Ordering(plan.facts, structures, Flow(plan.facts, structures))
    for module in structures:
        if not module.editable:
            continue
        for node in ordering.counted(module):
            edits.note(
                Site(node, module),
                "this order differs between processes or nodes: put sorted() around it, so that"
                " the ranks number things alike",
                rule="unordered-iteration-defines-state",
                attention=True,
            )
