"""Comparisons by which rank 0 chooses what it saves: ``if score > best: torch.save(..)``."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.reports import Reports
from ddpify.lint.scripts.script import Script
from ddpify.understanding.structure import walk

_ORDERS = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)


def choosing(script: Script, reports: Reports) -> Iterator[cst.BaseExpression]:
    """The tests in this file under which a model is saved on some ranks alone."""
    places = [
        site.node
        for effect in script.facts.effects.values()
        if effect.kind == "save"
        for site in (effect.site, *effect.calls)
        if site.module is script.module and isinstance(site.node, cst.Call)
    ]
    tests = {
        guard.test: None
        for place in dict.fromkeys(places)
        if reports.is_on_some_ranks(place)
        for guard in script.structure.guards(place)
        if guard.positive and not guard.left_early
    }
    yield from tests


def compared(script: Script, test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What a test, or what its names were set to, compares by its size with something else."""
    for one in walk(test):
        if isinstance(one, cst.Name):
            edges = script.flow.edges_into(script.control.locations(one))
            made = [edge.value for edge in edges if isinstance(edge.node, cst.Assign)]
            yield from (x for whole in made for x in _sides(whole) if x in script.structure.order)
        yield from _sides(one)


def _sides(node: cst.CSTNode | None) -> Iterator[cst.BaseExpression]:
    if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
        target = node.comparisons[0]
        if isinstance(target.operator, _ORDERS):
            yield node.left
            yield target.comparator
