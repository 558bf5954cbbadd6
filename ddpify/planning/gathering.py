"""Where rows of all ranks are gathered, for what reads a batch as a whole."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.planning.plan import Plan, Reduction
from ddpify.understanding import uses
from ddpify.understanding.arithmetic.row_writes import is_fresh
from ddpify.understanding.batching.in_place_writes import is_written
from ddpify.understanding.facts import Demand, Site
from ddpify.understanding.forms import Layout
from ddpify.understanding.libraries.object_kinds import is_criterion, is_loss, is_model
from ddpify.understanding.libraries.replicated_calls import is_loss_of_a_model
from ddpify.understanding.placement import Placement
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import UNPACKED, names_of
from ddpify.understanding.values import (
    UNKNOWN,
    Atom,
    Data,
    Instance,
    Number,
    ReplicatedTensor,
    Tup,
    Value,
    deep_atoms,
)


def gather_names(plan: Plan, demand: Demand) -> bool:
    """Gather rows where they got their names, before a computation couples them."""
    picked = demand.data.placement is Placement.ROWS and plan.barred & demand.data.definition_sites
    known = (Placement.COUPLED, Placement.SHARD, Placement.WEIGHTED)
    beside = demand.reader == uses.ONE_PLACEMENT  # which no reduction of what it is suits
    if not (picked or beside or demand.data.placement in known):
        return False
    names = plan.project.in_order(demand.data.names - plan.barred)
    nodes = [part for name in names for part in _parts(plan, name)]
    if not plan.project.all_editable(nodes):
        return False
    of_loss = demand.reader in (uses.BACKWARD, uses.A_LOSS)
    coupled = of_loss and demand.data.placement is Placement.COUPLED
    for node in _given_together(plan, demand, nodes) or nodes:
        plan.record(Reduction(node, "gather", coupled=coupled))
    return True


def _given_together(
    plan: Plan, demand: Demand, nodes: list[cst.BaseExpression]
) -> list[cst.BaseExpression]:
    """The arguments of the function that couples several rows, if it gets just these.

    What else their names are used for stays this rank's part.
    """
    for call in demand.calls if len(nodes) > 1 or _enters_a_model(plan, nodes) else ():
        given = given_to(plan, call, Placement.SHARD)
        held = [data for node in given for data in plan.facts.values[node].data]
        returned = plan.facts.values.get(call.node, UNKNOWN).data
        rows = any(data.placement in (Placement.ROWS, Placement.SHARD) for data in returned)
        same = {name for data in held for name in data.names} == set(nodes)
        own = call.module.editable and isinstance(call.node, cst.Call)
        if same and own and not rows and not _runs_a_model(plan, call.node):  # type: ignore[arg-type]
            return given
    return []


def _enters_a_model(plan: Plan, nodes: list[cst.BaseExpression]) -> bool:
    """Whether a model gets rows that have their names there: its other rows are a rank's own."""
    given = (
        argument.value
        for call in plan.facts.forwards.sharded_calls
        for argument in (call.args if isinstance(call, cst.Call) else ())
    )
    held = (data for node in given for data in plan.facts.values.get(node, UNKNOWN).data)
    return any(not data.names.isdisjoint(nodes) for data in held)


def _parts(plan: Plan, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The expressions to gather in place of one: those that a concatenation puts together."""
    given = node.args[0].value if isinstance(node, cst.Call) and node.args else None
    held = plan.facts.values.get(node, UNKNOWN).data
    if any(d.parted for d in held):
        return plan.project.in_order({one for d in held for one in d.names})
    of_two_sizes = [d for d in held if d.form is Layout.MASKED and d.placement is Placement.SHARD]
    if of_two_sizes and all(d.definition_sites for d in held):
        return plan.project.in_order({one for d in held for one in d.definition_sites})
    stacked = any(d.form is Layout.STACKED for d in held)
    if not stacked or not isinstance(given, (cst.List, cst.Tuple)):
        return [node]
    parts = [plan.facts.values.get(e.value, UNKNOWN).data for e in given.elements]
    named = [name for part in parts for data in part for name in data.names]
    return named if all(data.names for part in parts for data in part) else [node]


def gather_arguments(plan: Plan, demand: Demand) -> bool:
    """Give a function the whole batch where no reduction gives what it reads.

    Of rows that it returns, each rank takes its own.
    """
    for call in reversed(demand.calls):
        if not call.module.editable or not isinstance(call.node, cst.Call):
            continue
        shards = given_to(plan, call, Placement.SHARD)
        if plan.barred and (not shards or plan.barred.intersection(shards)):
            continue
        returned = plan.facts.values.get(call.node, UNKNOWN)
        trained = _is_trained_on(plan, returned.data) and _holds_a_models_call(plan, call)
        if trained or _runs_a_model(plan, call.node):
            return False
        if _may_be_rows_or_not(returned):
            return False
        counts = given_to(plan, call, Placement.COUNT)
        if counts and _gives_rows(returned):
            return False  # as many as this rank has, or as all have: it cannot be told
        for node in [made for one in shards for made in _where_made(plan, call, one)]:
            plan.record(Reduction(node, "gather"))
        for node in counts:
            plan.record(Reduction(node, "sum"))
        made = _parts_of(call, returned)
        rows = [d for d in made if d.placement in (Placement.ROWS, Placement.SHARD)]
        if shards and rows and _come_first(rows) and not _is_trained_on(plan, made):
            plan.choices.split[call.node] = frozenset(one for d in made for one in d.loaders)
        return bool(shards)
    return False


def _come_first(rows: list[Data]) -> bool:
    """Whether all of these lie along the first dimension, and are those of one tensor each.

    Others stay whole: a rank's own of them would be other ones.
    """
    return all(d.dim <= 0 and d.form is not Layout.STACKED for d in rows)


def _where_made(plan: Plan, call: Site, argument: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Where to gather an argument: what its function fills, where that was made.

    What would be filled else is a copy, and the caller goes on with its own.
    """
    names = [one for d in plan.facts.values[argument].data for one in d.names]
    fresh = bool(names) and all(map(is_fresh, names))
    return names if fresh and _is_filled(plan, call, argument) else [argument]


def _is_filled(plan: Plan, call: Site, argument: cst.BaseExpression) -> bool:
    """Whether the function that is called changes an argument in place."""
    assert isinstance(call.node, cst.Call)
    given = [one.value for one in call.node.args if one.keyword is None]
    called = [one for one, sites in plan.facts.callers.items() if call in sites]
    for function in called if argument in given else ():
        if not isinstance(function, cst.FunctionDef):
            continue
        method = isinstance(call.node.func, cst.Attribute)
        parameters = [p.name.value for p in function.params.params][method:]
        place = given.index(argument)
        structure = plan.site(function).module.structure
        names = (one for one in walk(function.body) if isinstance(one, cst.Name))
        filled = {one.value for one in names if is_written(structure, one)}
        if place < len(parameters) and parameters[place] in filled:
            return True
    return False


def _parts_of(call: Site, returned: Value) -> list[Data]:
    """What a call returns, or what each name gets of a tuple that is taken apart there."""
    above = call.module.parents[call.node]
    parts = [atom for atom in returned.atoms if isinstance(atom, Tup)]
    if returned.data or len(parts) != 1 or not isinstance(above, cst.Assign):
        return returned.data
    items = parts[0].items
    named = isinstance(above.targets[0].target, UNPACKED)
    rows = [d for item in items for d in item.data if d.placement is not Placement.REPLICATE]
    each = all(len(item.atoms) == len(item.data) == 1 for item in items)
    return rows if named and each and len(rows) == len(items) else []


def forget_ways_back(plan: Plan) -> None:
    """Leave a function's result replicated where all of it is split, only to be gathered again."""
    for call in list(plan.choices.split):
        itself = plan.reductions.get(call)
        if itself is not None and itself.how == "gather":
            del plan.choices.split[call], plan.reductions[call]
            continue
        above = plan.site(call).module.parents[call]
        target = above.targets[0].target if isinstance(above, cst.Assign) else None
        names = list(names_of(target)) if isinstance(target, (cst.Name, *UNPACKED)) else []
        made = [plan.reductions.get(name) for name in names]
        if names and all(one is not None and one.how == "gather" for one in made):
            del plan.choices.split[call]
            for name in names:
                del plan.reductions[name]


def split_again(plan: Plan) -> bool:
    """Let ranks take their own rows of those that unseen code gives back; whether any are new.

    Where something else comes by another call, such as a rank's own rows, those that the call with
    the rows of all ranks gets are split.
    """
    new = plan.facts.loading.given_back.keys() - plan.choices.split.keys()
    gathered = [node for node in new if node in plan.reductions]
    for node in gathered:
        plan.drop(node)  # what meets it there is a rank's own, in this call or in another
    if gathered:
        return True
    known = len(plan.choices.split)
    for node in plan.project.in_order(one for one in new if plan.site(one).module.editable):
        loaders = plan.facts.loading.given_back[node]
        places = _given_before(plan, node) if _comes_otherwise(plan, node) else []
        plan.choices.split |= dict.fromkeys(places or [node], loaders)
    return len(plan.choices.split) > known


def _comes_otherwise(plan: Plan, node: cst.CSTNode) -> bool:
    """Whether rows of all ranks come there in one call; in another its own, or what has none."""
    held = plan.facts.values.get(node, UNKNOWN).atoms
    own = (data.placement is Placement.SHARD for data in held if isinstance(data, Data))
    return any(isinstance(a, (Number, ReplicatedTensor)) for a in held) or any(own)


def _given_before(plan: Plan, node: cst.CSTNode) -> list[cst.CSTNode]:
    """What the calls that lead there get of rows of all ranks alone; nothing if one gets none."""
    found: list[cst.CSTNode] = []
    for path in plan.facts.loading.given_back_through.get(node, ()):
        given = next(filter(None, (_whole_rows_in(plan, call) for call in reversed(path))), [])
        if not given:
            return []
        found += given
    return found


def _whole_rows_in(plan: Plan, call: Site) -> list[cst.BaseExpression]:
    """The arguments of a call that always are rows of all ranks."""
    if not isinstance(call.node, cst.Call) or not call.module.editable:
        return []
    given = [one.value for one in call.node.args if not one.star]
    held = {node: plan.facts.values.get(node, UNKNOWN).atoms for node in given}
    return [node for node in given if held[node] and all(map(_are_whole_rows, held[node]))]


def _are_whole_rows(atom: Atom) -> bool:
    gathered = isinstance(atom, Data) and atom.form is Layout.GATHERED
    return gathered and atom.dim == 0 and not atom.flat  # type: ignore[attr-defined]


def _is_trained_on(plan: Plan, made: list[Data]) -> bool:
    """Whether gradients are asked for of what was made so: then it is a number, and no rows.

    What a model gets has rows, also where its loss is not yet one of all ranks.
    """
    sites = {site for data in made for site in data.definition_sites}
    losses = (data for _, loss in plan.facts.backwards.values() for data in loss.data)
    return any(sites & data.definition_sites for data in losses) and not _feeds_a_model(plan, sites)


def _feeds_a_model(plan: Plan, sites: set[cst.BaseExpression]) -> bool:
    """Whether a model gets something that is made at one of these places."""
    calls = (
        event.site.node
        for model in plan.facts.models
        for event in plan.facts.events.get(model, [])
        if event.kind == "call" and isinstance(event.site.node, cst.Call)
    )
    given = (plan.facts.values.get(one.value, UNKNOWN) for call in calls for one in call.args)
    return any(not sites.isdisjoint(data.definition_sites) for held in given for data in held.data)


def _gives_rows(returned: Value) -> bool:
    """Whether rows are among what a call returns."""
    held = (atom for atom in deep_atoms(returned) if isinstance(atom, Data))
    return any(atom.placement in (Placement.ROWS, Placement.SHARD) for atom in held)


def gather_for_unseen(plan: Plan, demand: Demand) -> bool:
    """Give a loss that is not seen, and may divide by anything, the rows of all ranks."""
    if not demand.data.opaque:
        return False
    made: set[cst.CSTNode] = {*demand.data.definition_sites} or {demand.site.node}
    return gather_calls(plan, {call for node in made for call in _unseen_calls(plan, node)})


def gather_loss(plan: Plan, node: cst.CSTNode) -> bool:
    """Give the call of a loss, which the node is or holds, the rows of all ranks."""
    return gather_calls(
        plan, {node} if isinstance(node, cst.Call) else set(_unseen_calls(plan, node))
    )


def gather_for_makers(plan: Plan, demand: Demand) -> bool:
    """Give the functions that make what is read the rows of all ranks, where its reader calls them.

    On those, a loss is right whatever it does with their positions.
    """
    reader = demand.site.module.function(demand.site.node)
    made = [plan.site(node) for node in demand.data.definition_sites or demand.data.names]
    known: set[cst.CSTNode] = set()
    found: set[cst.Call] = set()
    while made:
        site = made.pop()
        function = site.module.function(site.node)
        if function is reader and site.node not in known:
            return False  # it is made where it is read
        if function is reader and site.module is demand.site.module:
            found.update([site.node] if isinstance(site.node, cst.Call) else ())
            continue
        callers = plan.facts.callers.get(function, set()) if function is not None else set()
        bringing = [call for call in callers if _brings(plan, call.node, demand.data)]
        made += [call for call in bringing if call.node not in known]
        known |= {call.node for call in bringing}
    return gather_calls(plan, found)


def _brings(plan: Plan, call: cst.CSTNode, made: Data) -> bool:
    """Whether a call gives what was made in it, and not only something computed of that."""
    held = (a for a in deep_atoms(plan.facts.values.get(call, UNKNOWN)) if isinstance(a, Data))
    return any(
        one.definition_sites & made.definition_sites or one.names & made.names for one in held
    )


def gather_calls(plan: Plan, calls: set[cst.Call]) -> bool:
    """Give each of these calls of a loss the rows of all ranks; whether that is possible."""
    given = {call: given_to(plan, plan.site(call), Placement.SHARD) for call in calls}
    if not calls or any(len(a) < 2 or _runs_a_model(plan, call) for call, a in given.items()):
        return False
    for arguments in given.values():
        for argument in arguments:
            plan.record(Reduction(argument, "gather"))
    return True


def _unseen_calls(plan: Plan, node: cst.CSTNode) -> Iterator[cst.Call]:
    """The calls into unseen code that make a value, written there or under its parts' names."""
    if isinstance(node, cst.Call):
        yield node
        return
    todo, seen = [node], {node}
    while todo:
        one = todo.pop()
        parts = [part for part in walk(one) if part is not one]
        made = {site: None for part in parts for site in _opaque_sites(plan, part)}
        terms = [part for part in parts if _is_unseen_term(plan, part)]
        yield from (call for call in (*made, *terms) if isinstance(call, cst.Call))
        todo += [site for site in made.keys() - seen if not isinstance(site, cst.Call)]
        seen |= made.keys()


def _opaque_sites(plan: Plan, part: cst.CSTNode) -> list[cst.BaseExpression]:
    held = plan.facts.values.get(part, UNKNOWN).data
    return [site for data in held if data.opaque for site in data.definition_sites]


def _is_unseen_term(plan: Plan, part: cst.CSTNode) -> bool:
    """Whether this is what unseen code gives, as a term of a sum or the like."""
    if not isinstance(part, cst.Call) or _opaque_sites(plan, part):
        return False
    term = isinstance(plan.module_of(part).parents[part], (cst.BinaryOperation, cst.UnaryOperation))
    return term and any(data.opaque for data in plan.facts.values.get(part, UNKNOWN).data)


def _runs_a_model(plan: Plan, call: cst.Call) -> bool:
    """Whether a call is that of a model, or gets one: it would run on the whole batch."""
    parts = [argument.value for argument in call.args]
    if isinstance(call.func, cst.Attribute):
        parts.append(call.func.value)
    given = [plan.facts.values.get(argument.value, UNKNOWN) for argument in call.args]
    if not is_loss_of_a_model(plan.facts, call, given, plan.facts.values.get(call, UNKNOWN)):
        parts.append(call.func)  # no loss with weights of its own
    held = [plan.facts.values.get(part, UNKNOWN) for part in parts]
    models = (a for one in held for a in one.of(Instance))
    return any(is_model(a) and not is_criterion(a) and not is_loss(a) for a in models)


def _holds_a_models_call(plan: Plan, call: Site) -> bool:
    """Whether a call is of a function that runs a model on a rank's rows."""
    called = {one for one, sites in plan.facts.callers.items() if call in sites}
    held = [
        plan.site(node) for node in plan.facts.forwards.sharded_calls if isinstance(node, cst.Call)
    ]
    inside = (one.node for one in held if one.module.function(one.node) in called)
    return any(_runs_a_model(plan, node) for node in inside)  # type: ignore[arg-type]


def _may_be_rows_or_not(returned: Value) -> bool:
    """Whether a function may return rows, to be split again, and may as well return a number."""
    rows = {d for d in returned.data if d.placement in (Placement.ROWS, Placement.SHARD)}
    pooled = {a for a in returned.atoms if isinstance(a, Data) and a.form is Layout.GATHERED}
    return any(d.opaque for d in rows) or 0 < len(rows) < len({*returned.atoms} - pooled)


def given_to(plan: Plan, call: Site, placement: Placement) -> list[cst.BaseExpression]:
    """The arguments of a call that have a placement."""
    arguments = call.node.args if isinstance(call.node, cst.Call) else ()
    held = [(a.value, plan.facts.values.get(a.value, UNKNOWN).data) for a in arguments]
    return [node for node, data in held if any(d.placement is placement for d in data)]
