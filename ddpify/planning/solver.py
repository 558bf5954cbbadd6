"""Decides where values are reduced and which loaders are split, until nothing is left to decide.

Each round interprets the script with the decisions so far and looks at who still reads a value of
which ranks hold only a part. Training loaders are always split. An evaluation loader is split
where a reduction resolves every such read; otherwise each rank runs all of it, which is
always right.
"""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from ddpify import progress
from ddpify.planning import (
    batches_alike,
    demand_resolution,
    files_that_stay,
    gathering,
    idle_reductions,
    mapped_models,
    one_device,
    own_backwards,
    replicated_statements,
    split_within,
    too_deep,
    unshared,
)
from ddpify.planning.conversion_options import Options
from ddpify.planning.cut_short import CutShort
from ddpify.planning.first_look import refuse_at_once
from ddpify.planning.loader_order import (
    lost_batches,
    lost_evaluations,
    note_beside,
    note_unequal,
    switch_batches,
    unsplit,
)
from ddpify.planning.other_kinds import refuse_before, refuse_runtime_itself
from ddpify.planning.plan import Plan
from ddpify.planning.refusals import Refusal
from ddpify.planning.split_points import lasts, split_batches, told_apart_nowhere
from ddpify.planning.unfit_reductions import (
    SUITED,
    also_gets_replicated,
    is_outdated,
    is_unfit,
    met_at,
)
from ddpify.understanding import definition_sites, uses
from ddpify.understanding.batching import collating
from ddpify.understanding.batching.per_sample_lists import is_item_of_list
from ddpify.understanding.budget import Exhausted
from ddpify.understanding.choices import Choices
from ddpify.understanding.facts import Demand, Event, Facts
from ddpify.understanding.interpreter import interpret
from ddpify.understanding.libraries.distributed import IS_INITIALIZED
from ddpify.understanding.placement import Placement
from ddpify.understanding.project import Project
from ddpify.understanding.values import UNKNOWN, Data, Instance

_ROUNDS = 25


def make_plan(
    project: Project, options: Options, known: tuple[Facts, Choices] | None = None
) -> Plan:
    """Decide everything.

    Args:
        project: The script and the files that it imports.
        options: What the user asked for.
        known: What interpreting the project without any decision gave, where that is known.

    Raises:
        Refusal: The script cannot be converted.
    """
    for entry in project.entries:
        refuse_runtime_itself(entry)
    if known is None:
        refuse_at_once(project)
    plan = _planned(project, options, known)
    left = batches_alike.left_whole(plan.facts, plan.choices)
    return _with_evaluations(plan) if left else plan


def _with_evaluations(plan: Plan) -> Plan:
    """The plan that splits such evaluations, too, where all that reads their batches allows it."""
    again = replace(plan.options, force=False)
    try:
        other = _planned(plan.project, again, None, split_alike=True)
    except Refusal:
        return plan
    if lasts(other.facts, other.choices):
        return plan
    other.options = plan.options
    return other


def _planned(
    project: Project,
    options: Options,
    known: tuple[Facts, Choices] | None,
    *,
    split_alike: bool = False,
) -> Plan:
    # Where nothing asks for a group, that there is none changes nothing: it takes no round to see.
    fresh = Choices(split_alike=split_alike, alone=True)
    choices = Choices(trained=set(known[1].trained)) if known else fresh
    plan = Plan(project, options, known[0] if known else _interpreted(project, choices), choices)
    states: set[object] = set()
    for number in range(_ROUNDS):
        progress.advance("round")
        asked = plan.choices.copied()
        if number:
            plan.facts = _interpreted(project, plan.choices)
            state = plan.state()
            if state in states and not _bar_dropped(plan):
                break  # it would go round in a circle
            states.add(state)
        if not _decide_more(plan):
            if not idle_reductions.left_out(plan, asked):
                plan.facts = _interpreted(project, plan.choices)
            gathering.forget_ways_back(plan)
            _refuse_what_is_lost(plan)
            return plan
    for demand in plan.unmet:
        plan.refuse(unshared.refuse_reading(demand))
    plan.refuse(_undecided(plan))
    return plan


def _bar_dropped(plan: Plan) -> bool:
    """Never again reduce where decisions go round in a circle; whether there is such a place."""
    circling = plan.dropped.keys() - plan.barred
    plan.barred |= circling
    return bool(circling)


def _undecided(plan: Plan) -> Refusal:
    """The place that was decided on most often, and is open still."""
    node = next((node for node, _ in plan.dropped.most_common(1)), None)
    module = plan.project.entry if node is None else plan.site(node).module
    message = "cannot determine whether this value is global or one rank's part"
    remedy = "compute it from per-sample values, a mean or a sum over the batch"
    return Refusal(module, node, message, remedy)


def _decide_more(plan: Plan) -> bool:
    """Decide what the facts allow to decide now; whether there was anything."""
    if not plan.choices.alone and any(plan.facts.calls_to(IS_INITIALIZED)):
        plan.choices.alone = True
        return True
    if one_device.leave_out(plan):
        plan.forget_reductions()
        return True
    try:
        if split_batches(plan.facts, plan.choices):
            return True
        refuse_before(plan.facts, plan.project, plan.choices)
    except Refusal as refusal:
        plan.refuse(refusal)
    note_beside(plan.facts, plan.choices)
    if note_unequal(plan.facts, plan.choices):
        plan.forget_reductions()
        return True
    return (
        gathering.split_again(plan)
        or _decide(plan)
        or _run_replicated(plan)
        or switch_batches(plan)
        or _look_by_hand(plan)
        or _replicate(plan, lost_evaluations(plan.facts, plan.choices))
    )


def _refuse_what_is_lost(plan: Plan) -> None:
    facts = plan.facts
    for demand in facts.demands.values():  # whatever was decided, its reader still gets a part
        plan.refuse(unshared.refuse_reading(demand))
    found = (
        *unshared.taken_together(facts),
        *unshared.lost_losses(plan),
        *unshared.of_places(facts),
        *files_that_stay.states(facts),
        *files_that_stay.lengths(facts),
        *files_that_stay.gradient_hooks(facts),
        *unshared.work_of_all(facts),
        *unshared.without_rows(facts),
        *split_within.undivided(plan),
        *own_backwards.written(facts, plan.project),
        *own_backwards.divided(facts, plan.project),
        *own_backwards.averaged(facts, plan.project),
        *unshared.unequal_batches(facts),
        *told_apart_nowhere(facts, plan.choices),
        *lost_batches(plan),
        *mapped_models.by_hand(plan),
    )
    for refusal in found:
        plan.refuse(refusal)


def _interpreted(project: Project, choices: Choices) -> Facts:
    """The facts of a project.

    Raises:
        Refusal: Its calls go too deep, or it takes more steps than it may.
    """
    try:
        facts = interpret(project, choices)
    except RecursionError as error:
        raise too_deep.refusal(project, error) from None
    except Exhausted as error:
        raise CutShort(project, error) from None
    choices.trained |= facts.trained
    return facts


def _run_replicated(plan: Plan) -> bool:
    """Replicate loaders whose batches meet those that are trained on; whether there are any."""
    return _replicate(plan, unsplit(plan.facts, plan.choices))


def _replicate(plan: Plan, found: set[Instance]) -> bool:
    for loader in found:
        plan.replicated[loader.site] = "its batches are taken while others are in use"
        plan.choices.replicated.add(loader.site)
    if found:
        plan.forget_reductions()
    return bool(found)


def _look_by_hand(plan: Plan) -> bool:
    """Look for batches made by hand where loaders only fill what those are taken from.

    The models get no rows of the loaders' batches then: all were gathered before they are trained.
    """
    filled = plan.choices.trained - plan.choices.replicated
    split = plan.facts.forwards.row_calls or any(
        made.trained_on for made in plan.reductions.values()
    )
    called = (event.kind == "call" for model in plan.facts.models for event in _events(plan, model))
    if plan.choices.by_hand or split or not filled or not any(called):
        return False
    _make_by_hand(plan, filled)
    return True


def _make_whole_lists(plan: Plan) -> bool:
    """Let each rank make whole batches of lists that no rank can gather, as of texts to be padded.

    How long its longest text is says nothing of those of other ranks.
    """
    listed = (one.data for one in plan.unmet if is_item_of_list(one.data))
    met = {loader for data in listed for loader in data.loaders}
    filled = plan.choices.trained - plan.choices.replicated
    if plan.choices.by_hand or not met or any(one.site not in filled for one in met):
        return False
    _make_by_hand(plan, filled)
    return True


def _make_by_hand(plan: Plan, filled: set[cst.CSTNode]) -> None:
    for loader in filled:
        plan.replicated[loader] = "its samples are trained on in batches that are made by hand"
    plan.choices.replicated |= filled
    plan.choices.trained.clear()
    plan.choices.by_hand = True
    plan.forget_reductions()


def _events(plan: Plan, model: Instance) -> list[Event]:
    """What happens to a model that is trained; nothing to one that is not."""
    events = plan.facts.events.get(model, [])
    return events if any(event.kind == "optimize" for event in events) else []


def _decide(plan: Plan) -> bool:
    """One more decision for each open demand; whether any was made."""
    if _take_back(plan):
        return True
    before = _count(plan)
    plan.unmet = _resolve_demands(plan)
    if _count(plan) == before:  # else what was decided may resolve them
        try:
            for node in plan.reductions:
                _check_alike(plan, node)
            for demand in plan.unmet:
                plan.refuse(unshared.refuse_reading(demand))
        except Refusal:
            ways = (_replicate_other_calls, _gather_before, _make_whole_lists)
            if not any(way(plan) for way in ways):
                raise
            return True
    if len(plan.replicated) != before[1]:
        plan.forget_reductions()
        return True
    return _count(plan) != before


def _take_back(plan: Plan) -> bool:
    """Drop the reductions that do not suit what they get; whether there are any."""
    idle = [node for node in plan.reductions if node not in plan.facts.reductions.reduced]
    for node in idle:
        plan.drop(node)  # another reduction, decided in the same round, did it
    plan.idle = frozenset(idle)
    dropped = [node for node in plan.reductions if is_outdated(plan, node)]
    for node in dropped:
        plan.drop(node)  # something in it is replicated by now: to be decided anew
    for node in [n for n in plan.reductions if is_unfit(plan, n)]:
        if also_gets_replicated(plan, node) and node not in plan.others:
            plan.others[node] = replicated_statements.calls(plan.facts, node)
        plan.choices.apart |= met_at(plan, node)
        plan.bar(node)
        dropped.append(node)
    dropped += [node for node in [*plan.reductions] if _gathers_instead(plan, node)]
    return bool(dropped)


def _resolve_demands(plan: Plan) -> list[Demand]:
    """Decide what gives each reader a global value; those that nothing gives one.

    Those come last that another decision may make needless.
    """
    before, learnt = _count(plan), _learnt_from(plan)
    demands = _in_order(plan)
    first = [demand for demand in demands if not _may_vanish(plan, demand)]
    left = [demand for demand in first if not demand_resolution.resolve_all(plan, demand, learnt)]
    if _count(plan) == before:
        last = [demand for demand in demands if _may_vanish(plan, demand)]
        left += [demand for demand in last if not demand_resolution.resolve(plan, demand, learnt)]
    return left


def _in_order(plan: Plan) -> list[Demand]:
    """The open demands: those of trainings come first."""
    found = plan.facts.demands.values()
    return sorted(found, key=lambda one: not demand_resolution.in_training(plan, one))


def _may_vanish(plan: Plan, demand: Demand) -> bool:
    """Whether a part may meet what is whole there, unless another decision keeps them apart."""
    return demand.reader == uses.ONE_PLACEMENT and demand.site.node not in plan.choices.apart


def _count(plan: Plan) -> tuple[int, int, int]:
    return len(plan.reductions), len(plan.replicated), len(plan.choices.cuts)


def _learnt_from(plan: Plan) -> frozenset[cst.BaseExpression]:
    """What a loss is made of by picking rows: gathered, it would no longer match other rows.

    Often its first dimension is not the batch at all, as in ``tokens[:-1]``. Where batches are made
    by hand, their dimension is known. Until the positions are those of all rows, none is gathered.
    """
    if plan.choices.by_hand:
        return frozenset()
    definition_sites = frozenset(
        definition_site
        for demand in plan.facts.demands.values()
        if demand.reader == uses.BACKWARD and demand.data.placement is Placement.ROWS
        for definition_site in demand.data.definition_sites
    )
    first = all(_is_made_by_a_model(plan, b) or _lies_first(plan, b) for b in definition_sites)
    undecided = any(d.reader == uses.AN_INDEX for d in plan.facts.demands.values())
    return frozenset() if first and not undecided else definition_sites


def _lies_first(plan: Plan, node: cst.BaseExpression) -> bool:
    """Whether the first dimension surely is the batch's: PyTorch itself put the samples there."""
    held = plan.facts.values.get(node, UNKNOWN).data
    loaders = {loader for data in held for loader in data.loaders}
    known = bool(loaders) and not any(data.opaque or data.dim for data in held)
    return known and all(map(collating.puts_batch_first, loaders))


def _is_made_by_a_model(plan: Plan, node: cst.BaseExpression) -> bool:
    """Whether rows are those that a model has made of a rank's rows."""
    held = plan.facts.values.get(node, UNKNOWN).data
    names = {name for data in held for name in data.names}
    return bool(names) and names <= plan.facts.forwards.sharded_calls


def _replicate_other_calls(plan: Plan) -> bool:
    """Let functions do for all ranks alike what they did, in their calls that take no batch.

    Then they can reduce what they get of a batch. Whether there are any is found out once.
    """
    found = {node: calls for node, calls in plan.others.items() if calls and node in plan.barred}
    for calls in found.values():
        plan.choices.replicated_statements |= {
            call.module.statement(call.node): call for call in calls
        }
    plan.barred -= found.keys()
    plan.others = {node: [] for node in plan.others}
    if found:
        plan.forget_reductions()
    return bool(found)


def _gather_before(plan: Plan) -> bool:
    """Ask for rows of all ranks before they come to where none can be gathered; whether any do."""
    held = {node: plan.facts.values.get(node, UNKNOWN) for node in plan.barred}
    found = {node for node, value in held.items() if definition_sites.named_before(value, node)}
    found -= plan.choices.apart
    plan.choices.apart |= found
    return bool(found)


def _gathers_instead(plan: Plan, node: cst.CSTNode) -> bool:
    """Give a loss the rows of all ranks where it may be reduced inside, or not at all.

    That is so where a setting chooses among losses: each of them is right on all rows.
    """
    if not _is_reduced_twice(plan, node) or not gathering.gather_loss(plan, node):
        return False
    plan.bar(node)
    return True


def _is_reduced_twice(plan: Plan, node: cst.CSTNode) -> bool:
    return plan.reductions[node].trained_on and node in plan.facts.reductions.half_reduced


def _check_alike(plan: Plan, node: cst.CSTNode) -> None:
    """A line that several calls reach is reduced in one way: what it gets must suit that.

    Raises:
        Refusal: It does not, and the loaders that it comes from are trained on.
    """
    how = plan.reductions[node].how
    added = how == "sum" or (how == "mean" and not _has_no_gradient(plan, node))
    if _is_reduced_twice(plan, node) or (added and _is_summed_twice(plan, node)):
        raise _twice(plan, node)
    if how == "gather" and _is_gathered_twice(plan, node):
        raise _twice(plan, node)
    for data in plan.facts.reductions.reduced.get(node, ()):
        if data.opaque or data.placement in SUITED[how]:
            continue
        demand = Demand(plan.site(node), data, uses.ANOTHER_CALL)
        if any(loader.site in plan.choices.trained for loader in data.loaders):
            raise unshared.refuse_reading(demand)
        demand_resolution.replicate(plan, demand)


def _has_no_gradient(plan: Plan, node: cst.CSTNode) -> bool:
    """Whether this is ``loss.data`` or ``loss.detach()``: a mean of equal numbers is the same."""
    read = node.func if isinstance(node, cst.Call) else node
    if not isinstance(read, cst.Attribute) or read.attr.value not in ("data", "detach", "item"):
        return False
    held = plan.facts.values.get(read.value, UNKNOWN)
    tensors = all(isinstance(one, Data) and not one.opaque for one in held.atoms)
    return tensors and bool(held.atoms)  # and no object of the project with such a name


def _is_summed_twice(plan: Plan, node: cst.CSTNode) -> bool:
    """Whether a step of the training adds up over the ranks what may be global already."""
    return node in plan.facts.reductions.half_reduced and _is_trained_on(plan, node)


def _is_gathered_twice(plan: Plan, node: cst.CSTNode) -> bool:
    """Whether a step of the training gathers what may be the rows of all ranks already."""
    return node in plan.facts.reductions.half_gathered and _is_trained_on(plan, node)


def _is_trained_on(plan: Plan, node: cst.CSTNode) -> bool:
    """Whether what a reduction gets comes from loaders that are trained on."""
    loaders = (
        loader for data in plan.facts.reductions.reduced.get(node, ()) for loader in data.loaders
    )
    return any(loader.site in plan.choices.trained for loader in loaders)


def _twice(plan: Plan, node: cst.CSTNode) -> Refusal:
    """What may be reduced already, and may as well be a rank's part, has no right gradient."""
    site = plan.site(node)
    rows = plan.reductions[node].how == "gather"
    what, that = ("these may be the rows", "those") if rows else ("this loss may be one", "that")
    message = f"{what} of all ranks already, or {that} of a rank's own samples"
    remedy = (
        f"give each of the {'values' if rows else 'losses'} that may come here a line of its own,"
        " with its backward(); or compute them outside of the model's forward"
    )
    return Refusal(site.module, site.node, message, remedy)
