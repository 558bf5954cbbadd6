"""Reductions that suit nothing of what comes to them, or only a part."""

from __future__ import annotations

import libcst as cst

from ddpify.planning.plan import Plan
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes.tensor_sizes import measured
from ddpify.understanding.values import Data

SUITED = {
    "mean": {Placement.MEAN, Placement.WEIGHTED},
    "sum": {Placement.SUM, Placement.COUNT, Placement.PER_COUNT},
    "count": {Placement.COUNT, Placement.PER_COUNT},
    "gather": {Placement.SHARD, Placement.ROWS},
    "shape": {Placement.SHARD},
}


def is_outdated(plan: Plan, node: cst.CSTNode) -> bool:
    """Whether a reduction suits nothing of what it gets, as in ``correct / n`` of a global sum."""
    got = plan.facts.reductions.reduced.get(node, ())
    suited = SUITED[plan.reductions[node].how]
    return not any(
        data.opaque or (data.placement in suited and not _is_picked_before(node, data))
        for data in got
    )


def _is_picked_before(node: cst.CSTNode, data: Data) -> bool:
    """Whether these are picked of rows that can be gathered: of all ranks' they are others."""
    return (
        data.placement is Placement.ROWS
        and bool(data.definition_sites)
        and node not in data.definition_sites
    )


def is_unfit(plan: Plan, node: cst.CSTNode) -> bool:
    """Whether no one reduction suits all that comes to a place."""
    return also_gets_replicated(plan, node) or _is_mixed(plan, node) or bool(met_at(plan, node))


def met_at(plan: Plan, node: cst.CSTNode) -> set[cst.CSTNode]:
    """Where rows of a rank, or another tensor that all ranks hold, come to a reduction.

    The rows can be gathered before they come there. A number of rows is that of a tensor.
    """
    if also_gets_replicated(plan, node):
        return set()
    how, got = plan.reductions[node].how, plan.facts.reductions.reduced.get(node, ())
    if how == "gather":
        rows = [data for data in got if data.placement is Placement.SHARD]
        known = all(data.names - {node} for data in rows)
        return {node} if known and _also_gets_whole(plan, node) else set()
    if how not in ("count", "sum") or any(data.placement is not Placement.COUNT for data in got):
        return set()
    if not any(one.site in plan.choices.trained for data in got for one in data.loaders):
        return set()  # each rank would run the whole of an evaluation's loader
    found = {measured(site) for data in got for site in data.definition_sites or data.names}
    return {tensor for tensor in found if tensor in plan.facts.reductions.beside_whole}


def _also_gets_whole(plan: Plan, node: cst.CSTNode) -> bool:
    """Whether what all ranks hold comes on one way with rows of a rank, or in their place."""
    made = plan.facts.reductions
    parts, whole = made.reduced_through.get(node, set()), made.replicated_through.get(node, set())
    return node in made.half_gathered or not parts.isdisjoint(whole)


def also_gets_replicated(plan: Plan, node: cst.CSTNode) -> bool:
    """Whether a function gets ranks' parts there in one call, replicated values in another."""
    parts = plan.facts.reductions.reduced_through.get(node, set())
    return any(
        calls not in parts
        for calls in plan.facts.reductions.replicated_through.get(node, ())
        if parts
    )


def _is_mixed(plan: Plan, node: cst.CSTNode) -> bool:
    """Whether a line that several calls of a training reach gets what one way does not suit."""
    suited = SUITED[plan.reductions[node].how]
    got = plan.facts.reductions.reduced.get(node, ())
    through = plan.facts.reductions.reduced_through.get(node, ())
    unsuited = (data for data in got if not data.opaque and data.placement not in suited)
    sites = {loader.site for data in unsuited for loader in data.loaders}
    return len(through) > 1 and bool(sites & plan.choices.trained)
