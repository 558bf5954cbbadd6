"""How a demand for a global value is resolved: by a reduction, or by gathered rows."""

from __future__ import annotations

import libcst as cst

from ddpify.planning import gathering
from ddpify.planning.bindings import loader_name
from ddpify.planning.plan import Plan, Reduction
from ddpify.understanding import uses
from ddpify.understanding.arithmetic import denominators
from ddpify.understanding.batching import in_place_writes
from ddpify.understanding.facts import Demand
from ddpify.understanding.forms import Layout, NumberKind
from ddpify.understanding.placement import Placement
from ddpify.understanding.project import Project
from ddpify.understanding.shapes.tensor_sizes import is_own_number
from ddpify.understanding.values import UNKNOWN, Data

_NUMBERS_OF_ROWS = (Placement.COUNT, Placement.PER_COUNT)
_NEVER_GATHERED = (Layout.PACKED, Layout.INTERLEAVED, Layout.MIXED, Layout.LISTED)


def resolve_all(plan: Plan, demand: Demand, learnt: frozenset[cst.BaseExpression]) -> bool:
    """Resolve a demand and, where that was done for its call alone, in other calls as well.

    What the function itself reduces is global in all of its calls. What a caller gives it, or a
    loader's batch, is so in that call: the next run would ask the same of the next call.
    """
    reduced, replicated = {*plan.reductions}, {*plan.replicated}
    if not resolve(plan, demand, learnt):
        return False
    made = plan.reductions.keys() - reduced
    before = bool(made) and all(_is_outside(demand, node) for node in made)
    loaders = not made and plan.replicated.keys() > replicated
    for other in plan.facts.demands_again.get(demand, {}).values() if before or loaders else ():
        if in_training(plan, other) is before:
            resolve(plan, other, learnt)
    return True


def _is_outside(demand: Demand, node: cst.CSTNode) -> bool:
    """Whether this stands in another function than what reads the value."""
    module = demand.site.module
    inside = module.function(demand.site.node)
    return inside is not None and module.function(node) is not inside


def resolve(plan: Plan, demand: Demand, learnt: frozenset[cst.BaseExpression]) -> bool:
    """Decide what gives a use a global value; whether anything does."""
    if _is_of_a_single_row(demand):
        return False
    trained = any(loader.site in plan.choices.trained for loader in demand.data.loaders)
    if demand.data.found_in and demand.data.placement not in _NUMBERS_OF_ROWS:
        return _find_in_all(plan, demand, trained=trained)
    if demand.reader == uses.ONE_PLACEMENT:
        return _place_alike(plan, demand, trained=trained)
    editable = _editable(demand, plan.project)
    if demand.data.counting and len(editable) == len(demand.data.counting):
        for node in editable:
            _count(plan, node)
        return True
    how = _how(demand.data, demand.reader)
    if how == "gather" and not all(plan.facts.values.get(n, UNKNOWN).data for n in editable):
        editable = []  # a list of tensors, of which none is gathered by that
        if demand.reader == uses.A_KEPT_COLLECTION and not plan.choices.by_hand:
            return _fill_whole(plan, demand)
    of_loss = demand.reader in (uses.BACKWARD, uses.ARITHMETIC)
    if trained and of_loss and _cut(plan, demand):
        return True
    if trained and (_keeps_what_it_returns(plan, demand) or demand.data.definition_sites & learnt):
        return gathering.gather_arguments(plan, demand) or (
            demand.reader == uses.BACKWARD and gathering.gather_for_makers(plan, demand)
        )
    if demand.reader in (uses.BACKWARD, uses.ITEM) and gathering.gather_for_unseen(plan, demand):
        return True
    if plan.barred.intersection((*editable, *demand.data.names)):
        resolved = _resolve_before_calls(plan, demand)
        if not resolved and not trained:
            replicate(plan, demand)
        return resolved or not trained
    if how == "gather" and trained and _again_and_again(plan, demand, editable):
        return True
    apart = _divided_apart(plan, editable) if how == "mean" else []
    if apart:
        done = [_divide_by_any(plan, loss, demand) for loss in apart]
        return all(done)
    if how is not None and editable:
        done = [_reduce(plan, node, how, demand) for node in editable]
        return all(done)
    if not trained:
        replicate(plan, demand)
    elif demand.reader in uses.UNREDUCIBLE:
        return False  # a model would otherwise get the whole batch on each rank
    else:
        return (
            gathering.gather_names(plan, demand)
            or gathering.gather_arguments(plan, demand)
            or gathering.gather_for_makers(plan, demand)
        )
    return True


def _is_of_a_single_row(demand: Demand) -> bool:
    """Whether ``item()`` is asked of rows that the script makes: what has one alone is no batch."""
    data = demand.data
    rows = data.placement is Placement.SHARD and data.form is Layout.TENSOR and not data.opaque
    by_hand = bool(data.loaders) and all(one.role != "loader" for one in data.loaders)
    return demand.reader == uses.ITEM and rows and by_hand


def _find_in_all(plan: Plan, demand: Demand, *, trained: bool) -> bool:
    """Let positions be those among the rows of all ranks: in the masks of all they are found."""
    if not trained:
        replicate(plan, demand)
        return True
    if not plan.project.all_editable(demand.data.found_in):
        return False
    for mask in demand.data.found_in:
        plan.record(Reduction(mask, "gather"))
    return True


def _place_alike(plan: Plan, demand: Demand, *, trained: bool) -> bool:
    """Make a rank's part whole where it got its name, before what all ranks hold may come."""
    if _reduce_apart(plan, demand):
        return True
    apart = demand.site.node not in demand.data.names and demand.data.form not in _NEVER_GATHERED
    if apart and gathering.gather_names(plan, demand):
        return True
    if not trained:
        replicate(plan, demand)
    return not trained


def _reduce_apart(plan: Plan, demand: Demand) -> bool:
    """Reduce a sum where it is made, if nothing else may come there."""
    sites = demand.data.definition_sites
    if demand.data.placement is not Placement.SUM or not plan.project.all_editable(sites):
        return False
    held = [plan.facts.values.get(site, UNKNOWN) for site in sites]
    if any(not one.data or len(one.atoms) > len(one.data) for one in held):
        return False
    done = [_reduce(plan, site, "sum", demand) for site in sites]
    return all(done)


def _divided_apart(plan: Plan, nodes: list[cst.BaseExpression]) -> list[cst.BaseExpression]:
    """The losses in these that divide by one thing in one case, and by another in the next."""
    found: dict[cst.BaseExpression, None] = {}
    for node in nodes:
        means = _means(plan, node)
        if len({data.counted for data in means}) > 1:
            found.update(
                dict.fromkeys(b for data in means if data.counted for b in data.definition_sites)
            )
    return list(found)


def _means(plan: Plan, node: cst.BaseExpression) -> list[Data]:
    held = plan.facts.values.get(node, UNKNOWN).data
    return [data for data in held if data.placement in (Placement.MEAN, Placement.WEIGHTED)]


def _divide_by_any(plan: Plan, loss: cst.BaseExpression, demand: Demand) -> bool:
    """Decide what makes a loss global whichever it is; whether anything does."""
    callee = plan.facts.values.get(loss.func, UNKNOWN) if isinstance(loss, cst.Call) else UNKNOWN
    counted = {data.counted for data in _means(plan, loss)}
    weight = denominators.of_any(loss, callee, counted)
    if weight:
        plan.record(Reduction(loss, "mean", weight[0], demand.reader == uses.BACKWARD))
        return True
    return gathering.gather_calls(plan, {loss} if isinstance(loss, cst.Call) else set())


def _cut(plan: Plan, demand: Demand) -> bool:
    """Cut batches down to their first rows before they are shared; whether that was to be done."""
    sites = [
        plan.facts.batches.cuttable.get(definition_site)
        for definition_site in demand.data.definition_sites
    ]
    found: dict[cst.CSTNode, str] = {}
    for site in sites:
        held = plan.facts.values.get(site.node.value, UNKNOWN).data if site is not None else []  # type: ignore[attr-defined]
        if site is None or not held or site.node in plan.choices.cuts:
            return False
        loaders = frozenset(one for one in held[0].loaders if one.role == "loader")
        found[site.node] = loader_name(plan, site, loaders)
    if not found or not all(found.values()):
        return False
    plan.choices.cuts |= found
    return True


def _again_and_again(
    plan: Plan, demand: Demand, definition_sites: list[cst.BaseExpression]
) -> bool:
    """Gather before a function what its loop over the samples would gather for each of them."""
    if not definition_sites or not demand.calls or demand.data.placement is Placement.SHARD:
        return False
    owners = [(plan.module_of(node), node) for node in definition_sites]
    looped = all(owner.structure.loops(node) for owner, node in owners)
    return looped and gathering.gather_arguments(plan, demand)


def _resolve_before_calls(plan: Plan, demand: Demand) -> bool:
    """Reduce what goes into the function that reads it, since other calls need other reductions."""
    how = _how(demand.data, demand.reader)
    kept = how is not None and demand.reader == uses.A_KEPT_COLLECTION
    for call in reversed(demand.calls) if kept or how in ("mean", "sum") else ():
        parts = gathering.given_to(plan, call, demand.data.placement)
        if call.module.editable and parts and not plan.barred.intersection(parts):
            for node in parts:
                plan.record(Reduction(node, str(how)))
            return True
    if how == "mean" and in_training(plan, demand) and gathering.gather_for_makers(plan, demand):
        return True  # whatever the other calls divide by
    return gathering.gather_names(plan, demand) or gathering.gather_arguments(plan, demand)


def _keeps_what_it_returns(plan: Plan, demand: Demand) -> bool:
    """Whether a function keeps rows that it also returns, as a pool of earlier samples does."""
    call = next((c for c in reversed(demand.calls) if c.module.editable), None)
    if call is None or demand.reader != uses.A_KEPT_COLLECTION:
        return False
    returned = plan.facts.values.get(call.node, UNKNOWN)
    # It returns rows of this batch, and of an earlier one that is gathered by then.
    pooled = any(isinstance(a, Data) and a.form is Layout.GATHERED for a in returned.atoms)
    single = any(d.placement is Placement.ROWS for d in (demand.data, *returned.data))
    return bool(returned.data) and (single or pooled)


def _editable(demand: Demand, project: Project) -> list[cst.BaseExpression]:
    """The expressions to reduce: the value's definition site, or else where it is read."""
    sites = project.in_order(demand.data.definition_sites)
    owners = {site: project.owner(site) for site in sites}
    definition_sites = [
        definition_site for definition_site, owner in owners.items() if owner is not None
    ]
    if definition_sites and all(owner.editable for owner in owners.values() if owner is not None):
        return definition_sites
    written = in_place_writes.is_written(demand.site.module.structure, demand.site.node)
    if written and demand.data.placement is Placement.SHARD:
        return []  # what is gathered is a copy
    if demand.site.module.editable and demand.data.placement is not Placement.ROWS:
        return [demand.site.node]  # type: ignore[list-item]
    return []


def _how(data: Data, reader: str) -> str | None:
    """The reduction that makes a reading of this placement right, if there is one."""
    if data.parted and not data.placement.partial:
        return None  # but what their names stand for
    if data.placement is Placement.MEAN:
        return "mean"
    if data.placement is Placement.WEIGHTED:
        return "mean" if data.counted or not data.names else None
    if data.placement is Placement.SUM:
        return "sum"
    if data.placement in (Placement.COUNT, Placement.PER_COUNT):
        return "count"
    if data.placement is Placement.SHARD and data.opaque and reader in (uses.BACKWARD, uses.ITEM):
        return "mean"
    if data.placement in (Placement.ROWS, Placement.COUPLED) and data.definition_sites:
        return "gather"
    if data.placement is Placement.SHARD and data.form is NumberKind.SHAPE:
        return "shape"
    if data.placement is Placement.SHARD and data.form is Layout.STACKED and data.definition_sites:
        return "gather"  # each of the pieces
    if data.placement is Placement.SHARD and data.form not in _NEVER_GATHERED:
        return "gather"
    return None


def _reduce(plan: Plan, node: cst.BaseExpression, how: str, demand: Demand) -> bool:
    """Record a reduction, or what makes it needless; whether anything could be done."""
    gathered = demand.reader in uses.GATHERING
    if how == "gather" and not gathered and not in_training(plan, demand):
        if node not in plan.reductions:  # what a training step gathers there is right here, too
            replicate(plan, demand)
        return True
    if is_own_number(demand.data) and demand.site.module.editable:
        node = demand.site.node  # type: ignore[assignment]
    shapes_too = node in plan.facts.sizes.shape_uses or not isinstance(
        node, (cst.Call, cst.Subscript)
    )
    if how == "count" and shapes_too:  # it stays local where it is made, and is summed where read
        if demand.data.placement is Placement.PER_COUNT:
            return _sum_divisors(plan, demand)
        if not demand.site.module.editable:
            return _sum_argument(plan, demand)
        node = _before_rounding(plan, demand.site.node)
        if _is_replicated_too_late(demand, node):
            return _sum_argument(plan, demand)
        how = "count" if node in demand.data.definition_sites else "sum"
    weighted = demand.data.placement is Placement.WEIGHTED
    weight = demand.data.counted[0] if weighted and node in demand.data.definition_sites else ""
    known = plan.reductions.get(node)
    trained_on = demand.reader == uses.BACKWARD or (known is not None and known.trained_on)
    plan.record(Reduction(node, how, weight, trained_on))
    if demand.data.placement is Placement.ROWS:
        _count_all(plan, node)
    if how == "mean" and (demand.data.opaque or (weighted and not weight)):
        plan.assumed.add(node)
    return True


def _is_replicated_too_late(demand: Demand, node: cst.BaseExpression) -> bool:
    """Whether a number of rows is no sum of the ranks' by now, or stands where it is changed."""
    rounded = demand.data.form is NumberKind.ROUNDED and node is demand.site.node
    above = demand.site.module.parents[node]
    return rounded or (isinstance(above, cst.AugAssign) and above.target is node)


def _before_rounding(plan: Plan, node: cst.CSTNode) -> cst.BaseExpression:
    """What to sum over the ranks for a number of rows: in ``n // 2``, the number that is halved."""
    while isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.FloorDivide):
        held = plan.facts.values.get(node.left, UNKNOWN).data
        if not any(data.placement is Placement.COUNT for data in held):
            break
        node = node.left
    assert isinstance(node, cst.BaseExpression)
    return node


def _sum_divisors(plan: Plan, demand: Demand) -> bool:
    """Let what was divided by this rank's number of rows be divided by that of the batch's.

    Where the divisions are not known, or stand in files that stay, another decision may yet make
    that number whole.
    """
    sources = demand.data.loaders
    divisors = [n for n, loaders in plan.facts.sizes.divisors.items() if loaders & sources]
    if plan.project.all_editable(divisors):
        for node in divisors:
            plan.record(Reduction(node, "sum"))
        return True
    return _evaluates_replicated(plan, demand)


def _evaluates_replicated(plan: Plan, demand: Demand) -> bool:
    """Replicate a batch that is not trained on; whether this is one."""
    if in_training(plan, demand):
        return False
    replicate(plan, demand)
    return True


def _count_all(plan: Plan, picked_from: cst.BaseExpression) -> None:
    """Let the positions that rows of all ranks are picked by count those of all ranks."""
    for node in plan.facts.rows.positions.get(picked_from, ()):
        _count(plan, node)


def _count(plan: Plan, node: cst.BaseExpression) -> None:
    """Let a number of rows, or rows that something goes through, be those of all ranks."""
    held = plan.facts.values.get(node, UNKNOWN).data
    counts = [data for data in held if data.placement is Placement.COUNT]
    defined = any(node in data.definition_sites for data in counts)
    named = isinstance(node, cst.Name) and {data.form for data in counts} == {NumberKind.NUMBER}
    if not counts and held:
        plan.record(Reduction(node, "gather"))
    elif not counts or named or (defined and isinstance(node, (cst.Call, cst.Subscript))):
        plan.record(Reduction(node, "count"))
    else:
        plan.record(Reduction(node, "sum"))


def _sum_argument(plan: Plan, demand: Demand) -> bool:
    """Give a function of another file the size of the global batch, if a call has it."""
    for call in reversed(demand.calls):
        counts = gathering.given_to(plan, call, Placement.COUNT)
        if call.module.editable and counts:
            for node in counts:
                plan.record(Reduction(node, "sum"))
            return True
    return _evaluates_replicated(plan, demand)


def in_training(plan: Plan, demand: Demand) -> bool:
    """Whether what is read comes from a batch that is trained on."""
    return any(loader.site in plan.choices.trained for loader in demand.data.loaders)


def _fill_whole(plan: Plan, demand: Demand) -> bool:
    """Let every rank make ``list(loader)`` of whole batches: they are split where they are used."""
    replicate(plan, demand)
    plan.choices.trained -= {loader.site for loader in demand.data.loaders}
    plan.choices.by_hand = True
    return True


def replicate(plan: Plan, demand: Demand) -> None:
    """Let every rank run a whole loader, since no reduction gives what is read of it."""
    where = f"{demand.site.module.path.name}:{demand.site.line}"
    for loader in demand.data.loaders:
        plan.replicated.setdefault(loader.site, f"{demand.reader} at {where} reads whole batches")
        plan.choices.replicated.add(loader.site)
