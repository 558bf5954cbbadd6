"""Wrap each model that is trained, after it is complete and before it is used."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from ddpify.codemods.devices import data_parallel
from ddpify.codemods.models import model_helpers, unowned_parameters, untrained_models
from ddpify.codemods.models.model_names import binds, name_of_model, receiver_of
from ddpify.codemods.models.model_places import (
    conditional,
    gives_model,
    handed_over,
    is_listed,
    is_name_of,
    is_receiver,
    stands_alone,
)
from ddpify.codemods.models.trained_models import trained_models, whole_models

from ddpify.planning.bindings import bindings
from ddpify.planning.edits import Edits
from ddpify.planning.other_kinds import without_a_model
from ddpify.planning.plan import Plan
from ddpify.planning.refusals import Refusal
from ddpify.understanding.facts import Event, Site
from ddpify.understanding.model_structure import batchnorm_in
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import code_of, is_main_guard
from ddpify.understanding.values import UNKNOWN, Instance, Params, Tup, Value, deep_atoms

_SHAPING = ("make", "move", "change", "parallel", "given")


def edit(plan: Plan, edits: Edits) -> None:
    """Wrap the trained models."""
    models = trained_models(plan)
    if not models:
        plan.refuse(without_a_model(plan.facts, plan.project))
    unowned_parameters.edit(plan, edits)
    data_parallel.edit(plan, edits)
    for model in models:
        _wrap(plan, edits, model, _arguments(plan, model), plan.options.wrapped_as)
    for model in _untrained(plan, models):
        _wrap(plan, edits, model, ", trained=False", "normalises over the batches of all ranks")
    for name, site in plan.facts.forwards.unread.items():
        text = f"{name} is not read: it is taken to treat each sample by itself"
        edits.note(site, text, attention=True)


def _untrained(plan: Plan, trained: list[Instance]) -> list[Instance]:
    """The models that no optimizer steps, and that normalise over the batch."""
    if not plan.options.sync_batchnorm:
        return []
    found = whole_models(plan, untrained_models.normalising(plan))
    return [model for model in dict.fromkeys(found) if model not in trained]


def _wrap(plan: Plan, edits: Edits, model: Instance, extra: str, text: str) -> None:
    event = _last_shaping(plan, model)
    try:
        if event is not None:
            _wrap_at(plan, edits, model, event, extra, text)
        else:
            _wrap_where_bound(plan, edits, model, extra, text)
    except Refusal as refusal:
        plan.refuse(refusal)


def _last_shaping(plan: Plan, model: Instance) -> Event | None:
    """The last thing done to a model before it is first called, or given to an optimizer."""
    events = plan.facts.events.get(model, [])
    # Sharding replaces the parameters that an optimizer would hold.
    used = ("call",) if plan.options.strategy == "ddp" else ("call", "optimize")
    first_use = next((i for i, e in enumerate(events) if e.kind in used), len(events))
    shaping = [e for e in events[:first_use] if e.kind in _SHAPING and e.site.module.editable]
    for event in reversed(shaping):
        kept: Event | None = model_helpers.where_it_stays(plan, model, event, name_of_model)
        if event.kind == "parallel" and event is not shaping[0] and _is_only_there(event.site):
            continue  # a DataParallel of one branch, after which the other one uses the model too
        if event.kind == "change" and event is not shaping[0] and _is_set_again(event.site):
            continue  # a layer that is frozen from some epoch on, say: the wrapper goes by that
        if event.kind == "change" and event is not shaping[0] and _is_set_from_inside(event.site):
            continue  # by a function that has no name of its own for the model
        if event.kind == "change" and not _has_the_model(plan, model, event.site):
            continue  # in a list of its parameters: the wrapper goes by that, too
        # What a helper does that is called in a loop it may do to other models, again and again.
        if kept is event or (kept is not None and not _is_repeated(kept.site)):
            return kept
    return None


def _is_only_there(site: Site) -> bool:
    """Whether a statement makes a model ready in a branch that goes on to use it."""
    _, ready = _made_ready(site)
    return conditional(site.module, ready) is not None


def _is_set_again(site: Site) -> bool:
    """Whether an attribute of a model is set in each round of a loop that uses the model."""
    name, ready = _made_ready(site)
    loops = (n for n in site.module.structure.up(ready) if isinstance(n, (cst.For, cst.While)))
    return name is not None and any(_used_after(site.module, n, ready, name) for n in loops)


def _is_set_from_inside(site: Site) -> bool:
    """Whether a function freezes, or lets train, a model of the names around it."""
    name, function = name_of_model(site.node, site.module), site.module.function(site.node)
    frozen = isinstance(site.node, cst.Attribute) and site.node.attr.value.startswith("requires")
    if function is None or name is None or not frozen:
        return False
    own = site.module.parsed.scopes.local[function]
    return "." not in name and name not in own


def _has_the_model(plan: Plan, model: Instance, site: Site) -> bool:
    name = name_of_model(site.node, site.module)
    return name is None or is_name_of(plan, model, site, name)


def _made_ready(site: Site) -> tuple[str | None, cst.CSTNode]:
    """The name of the model that a place shapes, and the last statement to do so before a use."""
    name = name_of_model(site.node, site.module)
    statement = site.module.statement(site.node)
    return name, _last_before_use(site.module, statement, name) if name is not None else statement


def _is_repeated(site: Site) -> bool:
    return conditional(site.module, site.module.statement(site.node)) is not None


def _wrap_where_bound(plan: Plan, edits: Edits, model: Instance, extra: str, text: str) -> None:
    """A model that another file makes and moves is wrapped where the script gets it."""
    function = f"{plan.options.alias}.wrap"
    for site, name in bindings(plan, model, kept=True):
        if _built_for_several(plan, model, site) or _trained_before(plan, model, site):
            continue
        statement = _last_before_use(site.module, site.module.part(name), code_of(name))
        edits.rebind(statement, code_of(name), function, extra)
        _say(plan, edits, site, f"model {text}", model)
        return
    site = handed_over(plan, model)
    if site is not None:
        _wrap_once(plan, edits, model, site, extra, text)
        return
    raise Refusal(
        model.module,
        model.site,
        "the model is made in another file, and the script gives it no name",
        "bind the model to a name in the script, or convert the whole project",
    )


def _trained_before(plan: Plan, model: Instance, binding: Site) -> bool:
    """Whether a model is trained before it gets a name, as in ``model = fit(build(3))``."""
    trained: bool = model_helpers.trains_within(plan, model, binding.node)
    return trained


def _wrap_at(
    plan: Plan, edits: Edits, model: Instance, event: Event, extra: str, text: str
) -> None:
    module = event.site.module
    function = f"{plan.options.alias}.wrap"
    if _built_for_several(plan, model, event.site):
        _wrap_where_bound(plan, edits, model, extra, text)
        return
    if event.kind in ("make", "move", "parallel"):
        outermost = _outermost(plan, module, model, event.site.node)
        gone = module.statement(event.site.node) in edits.removed
        if not gone and _can_be_wrapped(plan, module, model, outermost):
            _wrap_once(plan, edits, model, Site(outermost, module), extra, text)
            return
    if event.kind == "make" and _kept_in_a_collection(plan, model, event.site):
        _wrap_where_bound(plan, edits, model, extra, text)
        return
    statement, name = _after(plan, model, event)
    edits.rebind(statement, name, function, extra)
    _say(plan, edits, Site(statement, module), f"{name} {text}", model)


def _can_be_wrapped(
    plan: Plan, module: ModuleFile, model: Instance, node: cst.BaseExpression
) -> bool:
    """Whether an expression that gives a model can be wrapped as it stands."""
    if not gives_model(plan, model, node):
        return False  # an iterator over several, say
    if stands_alone(module, model, node) or is_listed(module, model, node):
        return True
    fits: bool = model_helpers.trains_by(plan, model, module.parents[module.parents[node]])
    return fits and is_receiver(module, model, node)


def _wrap_once(
    plan: Plan, edits: Edits, model: Instance, site: Site, extra: str, text: str
) -> None:
    """Wrap an expression as it stands, unless it is for another model that it may give."""
    function = f"{plan.options.alias}.wrap"
    if function not in edits.wrapped.get(site.node, ()):
        edits.wrap(site.node, function, extra)
    _say(plan, edits, site, f"model {text}", model)


def _say(plan: Plan, edits: Edits, site: Site, text: str, model: Instance) -> None:
    """What the wrapper does at a place: to the gradients, and to layers that look at the batch."""
    normalisation = "batchnorm-not-synced"
    if not text.endswith(plan.options.wrapped_as):
        edits.note(site, text, rule=normalisation)
        return
    edits.note(site, text, rule="parameters-outside-ddp")
    if plan.options.sync_batchnorm and batchnorm_in(model) is not None:
        text = "its BatchNorm takes the statistics of the global batch"
        edits.note(site, text, rule=normalisation)


def _kept_in_a_collection(plan: Plan, model: Instance, site: Site) -> bool:
    """Whether the name that a statement binds is that of something that holds a new model."""
    statement: cst.CSTNode = site.node
    while not isinstance(statement, (cst.Assign, cst.BaseStatement)):
        statement = site.module.parents[statement]
    if not isinstance(statement, cst.Assign):
        return False
    bound = plan.facts.values.get(statement.targets[0].target, UNKNOWN)
    return model not in bound.atoms and model in deep_atoms(bound)


def _built_for_several(plan: Plan, model: Instance, site: Site) -> bool:
    """Whether the function around a place returns other models to other callers.

    They may do different things with them. One that trains its own model wraps it before.
    """
    function = site.module.function(site.node)
    if function is not None and model_helpers.trains_its_own(plan, model, function):
        return False
    return any(len(models) > 1 for models in _returned(plan, site) if model in models)


def _returned(plan: Plan, site: Site) -> Iterator[set[Instance]]:
    """What each part of what a function returns may be."""
    structure = site.module.structure
    function = structure.function(site.node)
    for part in walk(function) if function is not None else ():
        returned = part.value if isinstance(part, cst.Return) else None
        if returned is not None and structure.function(part) is function:  # of no inner one
            yield from _alternatives(plan.facts.values.get(returned, UNKNOWN))


def _alternatives(held: Value) -> Iterator[set[Instance]]:
    yield {atom for atom in held.atoms if isinstance(atom, Instance)}
    for atom in held.atoms:
        for part in atom.items if isinstance(atom, Tup) else ():
            yield from _alternatives(part)


def _arguments(plan: Plan, model: Instance) -> str:
    """What follows the model in the call of ``wrap``."""
    states = _optimizer_states(plan, model) if plan.options.strategy == "auto" else None
    counted = "" if states is None else f", optimizer_states={states}"
    moves = ", move_inputs=True" if _takes_any_inputs(plan, model) else ""
    return plan.options.wrap_arguments + moves + counted


def _takes_any_inputs(plan: Plan, model: Instance) -> bool:
    """Whether a DataParallel may take a model's inputs from the CPU.

    One that the script makes under a condition cannot be counted on to do so.
    """
    for event in plan.facts.events.get(model, ()):
        if event.kind == "parallel" and not data_parallel.is_kept(plan, event.site):
            module = event.site.module
            return conditional(module, module.statement(event.site.node)) is None
    return False


def _optimizer_states(plan: Plan, model: Instance) -> int | None:
    """How many tensors a model's optimizer keeps for each parameter; None for 2, as Adam does."""
    for optimizer in plan.facts.optimizers:
        stepped = deep_atoms(optimizer.arguments["params"])
        owners = whole_models(plan, (atom.owner for atom in stepped if isinstance(atom, Params)))
        call = optimizer.site
        if optimizer.type == "torch.optim.SGD" and model in owners and isinstance(call, cst.Call):
            named = [a.keyword.value for a in call.args if a.keyword is not None]
            starred = any(argument.star for argument in call.args)
            return int("momentum" in named or starred or len(call.args) - len(named) > 2)
    return None


def _outermost(
    plan: Plan, module: ModuleFile, model: Instance, node: cst.CSTNode
) -> cst.BaseExpression:
    """The whole chain ``Net(...).to(device)`` that still is the model, before it is trained."""
    best = node
    current = node
    while True:
        current = module.parents[current]
        if isinstance(current, cst.Attribute):
            continue
        held = plan.facts.values.get(current)
        if not isinstance(current, cst.Call) or held is None or model not in held.atoms:
            break
        if model_helpers.trains_by(plan, model, current):
            break  # as fit() does, which gives the model back
        best = current
    assert isinstance(best, cst.BaseExpression)
    return best


def _last_before_use(module: ModuleFile, statement: cst.CSTNode, name: str) -> cst.CSTNode:
    """The outermost branch or loop around a statement after which the name is not yet used.

    Not past a loop that binds the name: each round may have another model under it.
    """
    found = current = statement
    while current in module.parents and not isinstance(current, cst.FunctionDef):
        current = module.parents[current]
        if isinstance(current, cst.If) and is_main_guard(current.test):
            break
        if isinstance(current, (cst.For, cst.While)) and binds(current, name):
            break
        if isinstance(current, (cst.For, cst.While, cst.Try, cst.If)):
            if _used_after(module, _way_of(module, current, found), found, name):
                break
            found = current
    return found


def _way_of(module: ModuleFile, block: cst.CSTNode, statement: cst.CSTNode) -> cst.CSTNode:
    """The part of a condition, or of another block, that runs where one of its statements does."""
    other = block.orelse if isinstance(block, cst.If) else None
    if not isinstance(block, cst.If) or other is None:
        return block
    return other if module.holds(other, statement) else block.body


def _used_after(module: ModuleFile, block: cst.CSTNode, statement: cst.CSTNode, name: str) -> bool:
    """Whether a name is read in a block after one of its statements."""
    end = module.offsets(statement)[1]
    return any(
        isinstance(node, (cst.Name, cst.Attribute))
        and module.offsets(node)[0] >= end
        and code_of(node) == name
        and not isinstance(module.parents[node], cst.AssignTarget)
        for node in walk(block)
    )


def _after(plan: Plan, model: Instance, event: Event) -> tuple[cst.CSTNode, str]:
    """The statement after which a model is ready, and the name that it has there."""
    node, module = event.site.node, event.site.module
    statement = module.part(node)
    part = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else statement
    handed_on = event.kind == "make" and not isinstance(part, cst.Assign)  # as in return Net(3), 1
    names = () if handed_on else (name_of_model(node, module), receiver_of(node))
    for name in names:
        if name is not None and is_name_of(plan, model, event.site, name):
            return _last_before_use(module, statement, name), name
    raise _without_a_name(event.site)


def _without_a_name(site: Site) -> Refusal:
    text = "the model has no name here to wrap it by"
    return Refusal(site.module, site.node, text, "bind the model to a name")
