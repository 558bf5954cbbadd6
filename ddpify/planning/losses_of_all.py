"""Losses of what all ranks hold, such as a generator's on noise that no batch gives."""

from __future__ import annotations

import libcst as cst

from ddpify.planning.plan import Plan
from ddpify.understanding.facts import ReplicatedCall, Site
from ddpify.understanding.structure import walk


def is_shared(plan: Plan, site: Site) -> bool:
    """Whether a loss is made by a forward of which each rank computes its part of the rows.

    Then it is the same on all ranks, and no rank does all of the work for it.
    """
    if not isinstance(site.node, cst.Call):
        return False
    calls = plan.facts.forwards.replicated_calls.items()
    shared = {part for node, call in calls if _is_shared(plan, node, call) for part in walk(node)}
    made = [one.value for one in site.node.args]
    if isinstance(site.node.func, cst.Attribute):
        made.append(site.node.func.value)
    return bool(shared) and any(
        one.node in shared for one in plan.flow.ancestry_of(made, site.module)
    )


def _is_shared(plan: Plan, node: cst.CSTNode, call: ReplicatedCall) -> bool:
    """Whether ``dd.spread`` divides a call's rows."""
    divided = call.site.module.editable and not (call.gathered or call.single)
    rowwise = plan.facts.forwards.treat_rows_alone(call.models)
    return isinstance(node, cst.Call) and divided and rowwise
