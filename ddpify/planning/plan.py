"""Decides where values are reduced and which loaders are split, until nothing is left to decide.

Each round interprets the script with the decisions so far and looks at who still reads a value of
which ranks hold only a part. Training loaders are always split. An evaluation loader is split
where every such reading can be mended by a reduction; otherwise each rank runs it whole, which is
always right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from ddpify.planning.batches import split_batches
from ddpify.planning.options import Options
from ddpify.planning.refusals import (
    Refusal,
    lost_losses,
    refuse_before,
    refuse_reading,
    unequal_batches,
)
from ddpify.planning.turns import lost_turns, note_beside, unsplit
from ddpify.understanding import keeping
from ddpify.understanding.choices import Choices
from ddpify.understanding.facts import Demand, Facts, Site
from ddpify.understanding.interpreter import interpret
from ddpify.understanding.kinds import is_criterion, is_loss, is_model
from ddpify.understanding.placement import Placement
from ddpify.understanding.project import ModuleFile, Project
from ddpify.understanding.structure import walk
from ddpify.understanding.values import UNKNOWN, Data, Instance, Value

_ROUNDS = 25
_SUITED = {
    "mean": {Placement.MEAN, Placement.WEIGHTED},
    "sum": {Placement.SUM, Placement.COUNT, Placement.PER_COUNT},
    "count": {Placement.COUNT, Placement.PER_COUNT},
    "gather": {Placement.SHARD, Placement.ROWS},
    "shape": {Placement.SHARD},
}


@dataclass(frozen=True, slots=True)
class Reduction:
    """One expression to reduce: how is mean, sum, gather, shape or count; weight as code.

    ``trained_on``: gradients come from it.
    """

    node: cst.BaseExpression
    how: str
    weight: str = ""
    trained_on: bool = False


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
    barred: set[cst.CSTNode] = field(default_factory=set)  # gets what is whole in another call
    refusals: list[Refusal] = field(default_factory=list)  # what is left unconverted by force

    def refuse(self, refusal: Refusal) -> None:
        """Raise a refusal or, where the user wants what can be had, keep it to be marked."""
        if refusal.final or not self.options.force:
            raise refusal
        if all(str(refusal) != str(known) for known in self.refusals):
            self.refusals.append(refusal)

    def forget_reductions(self) -> None:
        """Decide anew: what was decided for a loader that is run whole may be needed by nobody."""
        self.reductions.clear()
        self.choices.reduced.clear()
        self.choices.split.clear()

    @property
    def aside(self) -> set[cst.CSTNode]:
        """The places of loaders that run whole, and are taken while others' batches are in use."""
        return self.choices.beside & self.replicated.keys()

    @property
    def editable(self) -> list[ModuleFile]:
        """The files that may be changed, the script itself first."""
        return [file for file in self.project.files if file.editable]

    def module_of(self, node: cst.CSTNode) -> ModuleFile:
        """The file that a node stands in."""
        owner = self.project.owner(node)
        assert owner is not None
        return owner

    def sites(self, *kinds: type[cst.CSTNode]) -> Iterator[Site]:
        """All nodes of these types in the files that may be changed."""
        for file in self.editable:
            yield from (Site(node, file) for node in file.parents if isinstance(node, kinds))

    def site(self, node: cst.CSTNode) -> Site:
        """A node with its file."""
        return Site(node, self.module_of(node))


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
    choices = Choices(trained=set(known[1].trained)) if known else Choices()
    plan = Plan(project, options, known[0] if known else interpret(project, choices), choices)
    for number in range(_ROUNDS):
        if number:
            plan.facts = interpret(project, plan.choices)
        try:
            if split_batches(plan.facts, plan.choices):
                continue
            refuse_before(plan.facts, project, plan.choices)
        except Refusal as refusal:
            plan.refuse(refusal)
        note_beside(plan.facts, plan.choices)
        if not _decide(plan) and not _run_whole(plan):
            unequal = unequal_batches(plan.facts, plan.choices)
            for lost in (*lost_losses(plan.facts), *unequal, *lost_turns(plan)):
                plan.refuse(lost)
            return plan
    plan.refuse(Refusal(project.entry, None, "its data flow does not settle", "report this script"))
    return plan


def _run_whole(plan: Plan) -> bool:
    """Let loaders run whole whose batches meet others; whether there are any."""
    found = unsplit(plan.facts, plan.choices)
    for loader in found:
        plan.replicated[loader.site] = "its batches are taken while others are in use"
        plan.choices.replicated.add(loader.site)
    if found:
        plan.forget_reductions()
    return bool(found)


def _decide(plan: Plan) -> bool:
    """One more decision for each open demand; whether any was made."""
    for node in [n for n in plan.reductions if n not in plan.facts.reduced]:
        del plan.reductions[node]  # another reduction, decided in the same round, did it
        plan.choices.reduced.discard(node)
    outdated = [node for node in plan.reductions if _is_outdated(plan, node)]
    for node in outdated:
        del plan.reductions[node]  # something in it is whole by now: to be decided anew
        plan.choices.reduced.discard(node)
    for node in [n for n in plan.reductions if _also_gets_whole(plan, n) or _is_mixed(plan, n)]:
        del plan.reductions[node]
        plan.choices.reduced.discard(node)
        plan.barred.add(node)
        outdated.append(node)
    if outdated:
        return True
    before = (len(plan.reductions), len(plan.replicated))
    learnt = _learnt_from(plan)
    left = [d for d in plan.facts.demands.values() if not _mend(plan, d, learnt)]
    for node in plan.reductions:
        _check_alike(plan, node)
    if left and (len(plan.reductions), len(plan.replicated)) == before:
        for demand in left:  # else what was decided may mend it
            plan.refuse(refuse_reading(plan.project.entry, demand))
    if len(plan.replicated) != before[1]:
        plan.forget_reductions()
        return True
    return len(plan.reductions) != before[0]


def _learnt_from(plan: Plan) -> frozenset[cst.BaseExpression]:
    """What a loss is made of by picking rows: gathered, it would no longer match other rows.

    Often its first dimension is not the batch at all, as in ``tokens[:-1]``. Where batches are made
    by hand, their dimension is known.
    """
    if plan.choices.by_hand:
        return frozenset()
    return frozenset(
        birth
        for demand in plan.facts.demands.values()
        if demand.reader == "backward()" and demand.data.placement is Placement.ROWS
        for birth in demand.data.births
    )


def _mend(plan: Plan, demand: Demand, learnt: frozenset[cst.BaseExpression]) -> bool:
    """Decide what gives a reader a whole value; whether anything does."""
    trained = any(loader.site in plan.choices.trained for loader in demand.data.loaders)
    editable = _editable(demand, plan.project)
    how = _how(demand.data, demand.reader)
    if trained and (_keeps_what_it_returns(plan, demand) or demand.data.births & learnt):
        return _gather_arguments(plan, demand)
    if demand.reader == "backward()" and _gather_for_unseen(plan, demand):
        return True
    if plan.barred.intersection((*editable, *demand.data.names)):
        mended = _mend_before_calls(plan, demand)
        if not mended and not trained:
            _replicate(plan, demand)
        return mended or not trained
    if how is not None and editable:
        for node in editable:
            _reduce(plan, node, how, demand)
    elif not trained:
        _replicate(plan, demand)
    elif demand.reader == keeping.READER:
        return False  # a model would otherwise get the whole batch on each rank
    else:
        return _gather_names(plan, demand) or _gather_arguments(plan, demand)
    return True


def _mend_before_calls(plan: Plan, demand: Demand) -> bool:
    """Make whole what goes into the function that reads it, since other calls need other ways."""
    how = _how(demand.data, demand.reader)
    apart = how in ("mean", "sum") or demand.reader.startswith("a collection")
    for call in reversed(demand.calls) if apart else ():
        parts = _given(plan, call, demand.data.placement)
        if call.module.editable and parts and not plan.barred.intersection(parts):
            for node in parts:
                _record(plan, Reduction(node, str(how)))
            return True
    return _gather_names(plan, demand) or _gather_arguments(plan, demand)


def _keeps_what_it_returns(plan: Plan, demand: Demand) -> bool:
    """Whether a function keeps rows that it also returns, as a pool of earlier samples does."""
    call = next((c for c in reversed(demand.calls) if c.module.editable), None)
    if call is None or not demand.reader.startswith("a collection"):
        return False
    returned = plan.facts.values.get(call.node, UNKNOWN)
    # It returns rows of this batch, and of an earlier one that is whole by then.
    pooled = any(isinstance(a, Data) and a.form == "gathered" for a in returned.atoms)
    single = any(d.placement is Placement.ROWS for d in (demand.data, *returned.data))
    return bool(returned.data) and (single or pooled)


def _is_outdated(plan: Plan, node: cst.CSTNode) -> bool:
    """Whether a reduction suits nothing of what it gets, as in ``correct / n`` of a whole sum."""
    got = plan.facts.reduced.get(node, ())
    suited = _SUITED[plan.reductions[node].how]
    return not any(data.opaque or data.placement in suited for data in got)


def _also_gets_whole(plan: Plan, node: cst.CSTNode) -> bool:
    """Whether a function gets the parts of ranks there in one call, what is whole in another."""
    parts = plan.facts.reduced_through.get(node, set())
    return any(calls not in parts for calls in plan.facts.whole_through.get(node, ()) if parts)


def _is_mixed(plan: Plan, node: cst.CSTNode) -> bool:
    """Whether a line that several calls of a training reach gets what one way does not suit."""
    suited = _SUITED[plan.reductions[node].how]
    got = plan.facts.reduced.get(node, ())
    through = plan.facts.reduced_through.get(node, ())
    unsuited = (data for data in got if not data.opaque and data.placement not in suited)
    sites = {loader.site for data in unsuited for loader in data.loaders}
    return len(through) > 1 and bool(sites & plan.choices.trained)


def _check_alike(plan: Plan, node: cst.CSTNode) -> None:
    """A line that several calls reach is reduced in one way: what it gets must suit that.

    Raises:
        Refusal: It does not, and the loaders that it comes from are trained on.
    """
    how = plan.reductions[node].how
    for data in plan.facts.reduced.get(node, ()):
        if data.opaque or data.placement in _SUITED[how]:
            continue
        demand = Demand(plan.site(node), data, "a line that is reduced for another call")
        if any(loader.site in plan.choices.trained for loader in data.loaders):
            raise refuse_reading(plan.project.entry, demand)
        _replicate(plan, demand)


def _editable(demand: Demand, project: Project) -> list[cst.BaseExpression]:
    """The expressions to reduce: where the value was born, or else where it is read."""
    owners = {birth: project.owner(birth) for birth in demand.data.births}
    births = [birth for birth, owner in owners.items() if owner is not None]
    if births and all(owner.editable for owner in owners.values() if owner is not None):
        return births
    if demand.site.module.editable and demand.data.placement is not Placement.ROWS:
        return [demand.site.node]  # type: ignore[list-item]
    return []


def _how(data: Data, reader: str) -> str | None:
    """The reduction that makes a reading of this placement right, if there is one."""
    if data.placement is Placement.MEAN:
        return "mean"
    if data.placement is Placement.WEIGHTED:
        return "mean" if data.counted or not data.names else None
    if data.placement is Placement.SUM:
        return "sum"
    if data.placement in (Placement.COUNT, Placement.PER_COUNT):
        return "count"
    if data.placement is Placement.SHARD and data.opaque and reader in ("backward()", "item()"):
        return "mean"
    if data.placement in (Placement.ROWS, Placement.COUPLED) and data.births:
        return "gather"
    if data.placement is Placement.SHARD and data.form == "shape":
        return "shape"
    if data.placement is Placement.SHARD and data.form == "stacked" and data.births:
        return "gather"  # each of the pieces
    if data.placement is Placement.SHARD and data.form not in ("packed", "interleaved"):
        return "gather"
    return None


def _reduce(plan: Plan, node: cst.BaseExpression, how: str, demand: Demand) -> None:
    collected = demand.reader.startswith("a collection")
    if how == "gather" and not collected and not _in_training(plan, demand):
        _replicate(plan, demand)
        return
    shapes_too = node in plan.facts.shape_uses or not isinstance(node, (cst.Call, cst.Subscript))
    if how == "count" and shapes_too:  # it stays local where it is made, and is summed where read
        if demand.data.placement is Placement.PER_COUNT:
            _sum_divisors(plan, demand)
            return
        if not demand.site.module.editable:
            _sum_argument(plan, demand)
            return
        node, how = demand.site.node, "sum"  # type: ignore[assignment]
    weighted = demand.data.placement is Placement.WEIGHTED
    weight = demand.data.counted[0] if weighted and node in demand.data.births else ""
    known = plan.reductions.get(node)
    trained_on = demand.reader == "backward()" or (known is not None and known.trained_on)
    _record(plan, Reduction(node, how, weight, trained_on))
    if demand.data.placement is Placement.ROWS:
        _count_all(plan, node)
    if how == "mean" and (demand.data.opaque or (weighted and not weight)):
        plan.assumed.add(node)


def _sum_divisors(plan: Plan, demand: Demand) -> None:
    """Let what was divided by this rank's number of rows be divided by that of the batch's.

    Raises:
        Refusal: The divisions are not known, and the batch is trained on.
    """
    sources = demand.data.loaders
    divisors = [n for n, loaders in plan.facts.divisors.items() if loaders & sources]
    owners = [plan.project.owner(node) for node in divisors]
    if divisors and all(owner is not None and owner.editable for owner in owners):
        for node in divisors:
            _record(plan, Reduction(node, "sum"))
    elif _in_training(plan, demand):
        raise refuse_reading(plan.project.entry, demand)
    else:
        _replicate(plan, demand)


def _count_all(plan: Plan, picked_from: cst.BaseExpression) -> None:
    """Let the positions that rows of all ranks are picked by count those of all ranks."""
    for node in plan.facts.positions.get(picked_from, ()):
        held = plan.facts.values.get(node, UNKNOWN).data
        counts = [data for data in held if data.placement is Placement.COUNT]
        if not counts:
            _record(plan, Reduction(node, "gather"))
        elif any(node in data.births for data in counts) and isinstance(
            node, (cst.Call, cst.Subscript)
        ):
            _record(plan, Reduction(node, "count"))
        else:
            _record(plan, Reduction(node, "sum"))


def _record(plan: Plan, reduction: Reduction) -> None:
    plan.reductions[reduction.node] = reduction
    plan.choices.reduced.add(reduction.node)


def _sum_argument(plan: Plan, demand: Demand) -> None:
    """Give a function of another file the size of the global batch.

    Raises:
        Refusal: No argument of a call is that size, and the batch is trained on.
    """
    for call in reversed(demand.calls):
        counts = _given(plan, call, Placement.COUNT)
        if call.module.editable and counts:
            for node in counts:
                _record(plan, Reduction(node, "sum"))
            return
    if _in_training(plan, demand):
        raise refuse_reading(plan.project.entry, demand)
    _replicate(plan, demand)


def _in_training(plan: Plan, demand: Demand) -> bool:
    return any(loader.site in plan.choices.trained for loader in demand.data.loaders)


def _replicate(plan: Plan, demand: Demand) -> None:
    """Let every rank run a loader whole, since its numbers are read in a way no sum mends."""
    where = f"{demand.site.module.path.name}:{demand.site.line}"
    for loader in demand.data.loaders:
        plan.replicated.setdefault(loader.site, f"{demand.reader} at {where} reads whole batches")
        plan.choices.replicated.add(loader.site)


def _gather_names(plan: Plan, demand: Demand) -> bool:
    """Gather rows where they got their names, before a computation couples them."""
    if demand.data.placement not in (Placement.COUPLED, Placement.SHARD, Placement.WEIGHTED):
        return False
    names = demand.data.names - plan.barred
    nodes = [part for name in names for part in _parts(plan, name)]
    owners = [plan.project.owner(node) for node in nodes]
    if not nodes or not all(owner is not None and owner.editable for owner in owners):
        return False
    for node in nodes:
        _record(plan, Reduction(node, "gather"))
    return True


def _parts(plan: Plan, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The expressions to gather in place of one: those that a concatenation puts together."""
    given = node.args[0].value if isinstance(node, cst.Call) and node.args else None
    stacked = any(d.form == "stacked" for d in plan.facts.values.get(node, UNKNOWN).data)
    if not stacked or not isinstance(given, (cst.List, cst.Tuple)):
        return [node]
    parts = [plan.facts.values.get(e.value, UNKNOWN).data for e in given.elements]
    named = [name for part in parts for data in part for name in data.names]
    return named if all(data.names for part in parts for data in part) else [node]


def _gather_arguments(plan: Plan, demand: Demand) -> bool:
    """Give a function the whole batch where it reads what no reduction makes whole.

    Of rows that it returns, each rank takes its own.
    """
    for call in reversed(demand.calls):
        if not call.module.editable or not isinstance(call.node, cst.Call):
            continue
        shards = _given(plan, call, Placement.SHARD)
        if plan.barred and (not shards or plan.barred.intersection(shards)):
            continue
        if _runs_a_model(plan, call.node):
            return False
        if _may_be_rows_or_not(plan.facts.values.get(call.node, UNKNOWN)):
            return False
        for node in shards:
            _record(plan, Reduction(node, "gather"))
        returned = plan.facts.values.get(call.node, UNKNOWN).data
        if shards and any(d.placement in (Placement.ROWS, Placement.SHARD) for d in returned):
            loaders = frozenset(loader for d in returned for loader in d.loaders)
            plan.choices.split[call.node] = loaders
        return bool(shards)
    return False


def _gather_for_unseen(plan: Plan, demand: Demand) -> bool:
    """Give a loss that is not seen, and may divide by anything, the rows of all ranks."""
    if not demand.data.opaque:
        return False
    calls = {call for node in demand.data.births for call in _unseen_calls(plan, node)}
    given = {call: _given(plan, plan.site(call), Placement.SHARD) for call in calls}
    if not calls or any(len(a) < 2 or _runs_a_model(plan, call) for call, a in given.items()):
        return False
    for arguments in given.values():
        for argument in arguments:
            _record(plan, Reduction(argument, "gather"))
    return True


def _unseen_calls(plan: Plan, node: cst.CSTNode) -> Iterator[cst.Call]:
    """The calls into unseen code that make a value, written there or under its parts' names."""
    if isinstance(node, cst.Call):
        yield node
        return
    for part in walk(node):
        held = plan.facts.values.get(part, UNKNOWN).data if part is not node else []
        births = (birth for data in held if data.opaque for birth in data.births)
        yield from (birth for birth in births if isinstance(birth, cst.Call))


def _runs_a_model(plan: Plan, call: cst.Call) -> bool:
    """Whether a call is that of a model, or gets one: it would run on the whole batch."""
    owner = call.func.value if isinstance(call.func, cst.Attribute) else call.func
    parts = (call.func, owner, *(argument.value for argument in call.args))
    held = [plan.facts.values.get(part, UNKNOWN) for part in parts]
    models = (a for one in held for a in one.of(Instance))
    return any(is_model(a) and not is_criterion(a) and not is_loss(a) for a in models)  # type: ignore[arg-type]


def _may_be_rows_or_not(returned: Value) -> bool:
    """Whether a function may return rows, to be split again, and may as well return a number."""
    rows = {d for d in returned.data if d.placement in (Placement.ROWS, Placement.SHARD)}
    pooled = {a for a in returned.atoms if isinstance(a, Data) and a.form == "gathered"}
    return any(d.opaque for d in rows) or 0 < len(rows) < len({*returned.atoms} - pooled)


def _given(plan: Plan, call: Site, placement: Placement) -> list[cst.BaseExpression]:
    """The arguments of a call that have a placement."""
    arguments = call.node.args if isinstance(call.node, cst.Call) else ()
    held = [(a.value, plan.facts.values.get(a.value, UNKNOWN).data) for a in arguments]
    return [node for node, data in held if any(d.placement is placement for d in data)]


def loader_instances(plan: Plan) -> list[Instance]:
    """The loaders that the script iterates."""
    return [loader for loader in plan.facts.loaders if loader in plan.facts.iterated]
