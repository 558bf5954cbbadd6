"""Decides where values are reduced and which loaders are split, until nothing is left to decide.

Each round interprets the script with the decisions so far and looks at who still reads a value of
which ranks hold only a part. Training loaders are always split. An evaluation loader is split
where every such reading can be mended by a reduction; otherwise each rank runs it whole, which is
always right.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from ddpify.planning.options import Options
from ddpify.planning.refusals import (
    Refusal,
    refuse_before,
    refuse_lost_losses,
    refuse_reading,
)
from ddpify.understanding.facts import Demand, Facts
from ddpify.understanding.interpreter import Choices, interpret
from ddpify.understanding.placement import Placement
from ddpify.understanding.project import ModuleFile, Project
from ddpify.understanding.values import Data, Instance, Value

_ROUNDS = 25


@dataclass(frozen=True, slots=True)
class Reduction:
    """One expression to reduce: how is mean, sum, gather or count; weight as code."""

    node: cst.BaseExpression
    how: str
    weight: str = ""


@dataclass(slots=True)
class Plan:
    """All decisions about one script."""

    project: Project
    options: Options
    facts: Facts
    choices: Choices
    reductions: dict[cst.CSTNode, Reduction] = field(default_factory=dict)
    replicated: dict[cst.CSTNode, str] = field(default_factory=dict)  # loader's place -> why
    assumed: set[cst.CSTNode] = field(default_factory=set)

    @property
    def module(self) -> ModuleFile:
        """The file to convert."""
        return self.project.entry


def make_plan(project: Project, options: Options) -> Plan:
    """Decide everything; raises :class:`Refusal` where the script cannot be converted."""
    plan = Plan(project, options, Facts(), Choices())
    for _ in range(_ROUNDS):
        plan.facts = interpret(project, plan.choices)
        refuse_before(plan.facts, project, plan.choices)
        if not _decide(plan):
            refuse_lost_losses(plan.facts)
            return plan
    raise Refusal(project.entry, None, "its data flow does not settle", "report this script")


def _decide(plan: Plan) -> bool:
    """One more decision for each open demand; whether any was made."""
    for node in [n for n in plan.reductions if n not in plan.facts.needed]:
        del plan.reductions[node]  # another reduction, decided in the same round, did it
        plan.choices.reduced.discard(node)
    before = (len(plan.reductions), len(plan.replicated))
    owners = _module_index(plan.project)
    for demand in plan.facts.demands.values():
        _mend(plan, demand, owners)
    if len(plan.replicated) != before[1]:
        # What was decided for a loader that is now run whole may be needed by nobody.
        plan.reductions.clear()
        plan.choices.reduced.clear()
        return True
    return len(plan.reductions) != before[0]


def _module_index(project: Project) -> dict[cst.CSTNode, ModuleFile]:
    return {node: file for file in project.files for node in file.parents}


def _mend(plan: Plan, demand: Demand, owners: dict[cst.CSTNode, ModuleFile]) -> None:
    trained = any(loader.site in plan.choices.trained for loader in demand.data.loaders)
    editable = _editable(demand, owners)
    how = _how(demand.data, demand.reader)
    if how is not None and editable:
        for node in editable:
            _reduce(plan, node, how, demand)
    elif not trained:
        _replicate(plan, demand)
    elif not _gather_arguments(plan, demand):
        raise refuse_reading(plan.project.entry, demand)


def _editable(demand: Demand, owners: dict[cst.CSTNode, ModuleFile]) -> list[cst.BaseExpression]:
    """The expressions to reduce: where the value was born, or else where it is read."""
    births = [b for b in demand.data.births if b in owners]
    if births and all(owners[b].editable for b in births):
        return births
    if demand.site.module.editable and demand.data.placement is not Placement.ROWS:
        return [demand.site.node]  # type: ignore[list-item]
    return []


def _how(data: Data, reader: str) -> str | None:
    """The reduction that makes a reading of this placement right, if there is one."""
    if data.placement is Placement.MEAN:
        return "mean"
    if data.placement is Placement.WEIGHTED:
        return "mean" if data.form != "masked" else None
    if data.placement is Placement.SUM:
        return "sum"
    if data.placement in (Placement.COUNT, Placement.PER_COUNT):
        return "count"
    if data.placement is Placement.SHARD and data.opaque and reader in ("backward()", "item()"):
        return "mean"
    if data.placement is Placement.ROWS and data.births:
        return "gather"
    if data.placement is Placement.SHARD and data.form not in ("masked", "stacked"):
        return "gather"
    return None


def _reduce(plan: Plan, node: cst.BaseExpression, how: str, demand: Demand) -> None:
    collected = demand.reader.startswith("a collection")
    if how == "gather" and not collected and not _in_training(plan, demand):
        _replicate(plan, demand)
        return
    shapes_too = node in plan.facts.shape_uses or not isinstance(node, (cst.Call, cst.Subscript))
    if how == "count" and shapes_too:  # it stays local where it is made, and is summed where read
        node, how = demand.site.node, "sum"  # type: ignore[assignment]
        if not demand.site.module.editable:
            _replicate(plan, demand)
            return
    weighted = demand.data.placement is Placement.WEIGHTED
    weight = demand.data.counted[0] if weighted and node in demand.data.births else ""
    plan.reductions[node] = Reduction(node, how, weight)
    plan.choices.reduced.add(node)
    if how == "mean" and (demand.data.opaque or (weighted and not weight)):
        plan.assumed.add(node)


def _in_training(plan: Plan, demand: Demand) -> bool:
    return any(loader.site in plan.choices.trained for loader in demand.data.loaders)


def _replicate(plan: Plan, demand: Demand) -> None:
    """Let every rank run a loader whole, since its numbers are read in a way no sum mends."""
    where = f"{demand.site.module.path.name}:{demand.site.line}"
    for loader in demand.data.loaders:
        plan.replicated.setdefault(loader.site, f"{demand.reader} at {where} reads whole batches")
        plan.choices.replicated.add(loader.site)


def _gather_arguments(plan: Plan, demand: Demand) -> bool:
    """Give a function of another file the whole batch, where it reads what ranks hold in part."""
    for call in reversed(demand.calls):
        if not call.module.editable or not isinstance(call.node, cst.Call):
            continue
        shards = [a.value for a in call.node.args if _is_shard(plan.facts.values.get(a.value))]
        for node in shards:
            plan.reductions[node] = Reduction(node, "gather")
            plan.choices.reduced.add(node)
        return bool(shards)
    return False


def _is_shard(held: Value | None) -> bool:
    return held is not None and any(d.placement is Placement.SHARD for d in held.data)


def loader_instances(plan: Plan) -> list[Instance]:
    """The loaders that the script iterates."""
    return [loader for loader in plan.facts.loaders if loader in plan.facts.iterated]
