"""Losses over several batches by hand: nothing may tell that those have as many rows as each other.

The runtime weights a mean by how the batch that was split last is shared, which suits the others if
they are as large: the points of an equation beside those of its boundary need not be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from ddpify.planning.edits import Edits
from ddpify.planning.plan import Plan
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import brief, code_of, displayed, dotted
from ddpify.understanding.values import UNKNOWN, may_be_integer


def edit(plan: Plan, edits: Edits) -> None:
    """Note such losses, with the places of their batches."""
    for node, reduction in plan.reductions.items():
        if reduction.how != "mean" or not reduction.trained_on:
            continue
        loaders = {
            one for data in plan.facts.reductions.reduced.get(node, ()) for one in data.loaders
        }
        groups = _of_one_size(plan, {one.site for one in loaders} & plan.choices.batches.keys())
        if len(groups) > 1:
            lines = sorted(min(_lines(plan, group)) for group in groups)
            edits.note(
                plan.site(node),
                f"{brief(node)} is over batches that are split in lines"
                f" {', '.join(map(str, lines))}: right if those have as many rows as each other",
                attention=True,
            )


def _lines(plan: Plan, group: set[object]) -> Iterator[int]:
    """The lines of the places among what is known to be of one size."""
    for one in group & plan.choices.batches.keys():
        yield plan.module_of(one).line(one)  # type: ignore[arg-type]


def _of_one_size(plan: Plan, places: Iterable[cst.CSTNode]) -> list[set[object]]:
    """The places where batches are split, those together that are of one size.

    Their rows meet one by one, or they are made with the same number.
    """
    met: list[set[object]] = [{one.site for one in group} for group in plan.facts.batches.combined]
    met += [set(group) for group in plan.facts.by_hand.entered_together]
    groups: list[set[object]] = []
    for place in places:
        own = {place, *_sizes(plan, place)}.union(*(group for group in met if place in group))
        joined = [group for group in groups if group & own]
        groups = [group for group in groups if not group & own] + [own.union(*joined)]
    return groups


def _sizes(plan: Plan, place: cst.CSTNode) -> Iterator[tuple[object, str]]:
    """The names of numbers that the calls of an expression are given, with their function."""
    structure = plan.module_of(place).structure
    for call in (one for one in walk(place) if isinstance(one, cst.Call)):
        for given in (part for one in call.args for part in displayed(one.value) or [one.value]):
            held = plan.facts.values.get(given, UNKNOWN).atoms
            if dotted(given) is not None and held and all(map(may_be_integer, held)):
                yield structure.function(place), code_of(given)
