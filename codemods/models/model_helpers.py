"""Functions that only do something to a model: a name bound anew in one is lost when it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Event, Site
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import walk
from ddpify.understanding.syntax import parameters
from ddpify.understanding.values import UNKNOWN, Data, Instance, Number, ReplicatedTensor

NameOf = Callable[[cst.CSTNode, ModuleFile], str | None]


def where_it_stays(plan: Plan, model: Instance, event: Event, name_of: NameOf) -> Event | None:
    """An event of a model, or the one call of the helper that it happens in; None without one.

    ``name_of``: the name of a model at the node of an event.
    """
    seen: set[cst.CSTNode] = set()
    while True:
        function = event.site.module.function(event.site.node)
        name = name_of(event.site.node, event.site.module)
        given = function is not None and name in {p.name.value for p in parameters(function)}
        if function is None or function in seen or not given:
            return event
        passes_on = _gives_back_any(plan, model, event.site.node) and not any(
            _trains(plan, model, one) for one in walk(function)
        )
        if not passes_on and not _is_helper(plan, model, function, event.site.node):
            return event
        seen.add(function)
        calls = list(_calls_with(plan, model, function))
        if len(calls) != 1:
            return None
        call, argument = calls[0]
        if passes_on and _is_bound(call):
            event = Event("move", call)
        elif isinstance(argument, cst.Name):
            event = Event("given", Site(argument, call.module))
        else:
            return None


def _gives_back_any(plan: Plan, model: Instance, place: cst.CSTNode) -> bool:
    """Whether what gives a model back at a place does so with tensors, too."""
    held = plan.facts.values.get(place, UNKNOWN).atoms
    return model in held and any(
        isinstance(atom, (Data, ReplicatedTensor, Number)) for atom in held
    )


def _is_bound(call: Site) -> bool:
    """Whether an assignment gives what a call returns a name."""
    return isinstance(call.module.parents[call.node], (cst.Assign, cst.AnnAssign))


def _is_helper(plan: Plan, model: Instance, function: cst.FunctionDef, place: cst.CSTNode) -> bool:
    """Whether a function that gets a model neither trains it nor hands it on."""
    nodes = list(walk(function))
    returned = [n.value for n in nodes if isinstance(n, cst.Return) and n.value is not None]
    calls = (n for n in nodes if isinstance(n, cst.Call) and n is not place)
    handed_on = any(model in plan.facts.values.get(one, UNKNOWN).atoms for one in returned)
    return not handed_on and not any(_runs(plan, model, call) for call in calls)


def _runs(plan: Plan, model: Instance, call: cst.Call) -> bool:
    """Whether a call runs the model with a graph, or gives it to a function of the project."""
    if _trains(plan, model, call):
        return True
    called = any(site.node is call for sites in plan.facts.callers.values() for site in sites)
    return called and any(
        model in plan.facts.values.get(argument.value, UNKNOWN).atoms for argument in call.args
    )


def _trains(plan: Plan, model: Instance, call: cst.CSTNode) -> bool:
    """Whether a call runs the model with a graph."""
    return any(e.site.node is call and e.gradient for e in plan.facts.events.get(model, ()))


def trains_its_own(plan: Plan, model: Instance, function: cst.FunctionDef) -> bool:
    """Whether a function trains a model that no caller gives it."""
    return not any(_calls_with(plan, model, function)) and trains_within(plan, model, function)


def trains_by(plan: Plan, model: Instance, call: cst.CSTNode) -> bool:
    """Whether this very call runs the model with a graph, itself or in a function of the script."""
    called = (
        function
        for function, sites in plan.facts.callers.items()
        if any(site.node is call for site in sites)
    )
    return _trains(plan, model, call) or any(trains_within(plan, model, one) for one in called)


def trains_within(plan: Plan, model: Instance, function: cst.CSTNode) -> bool:
    """Whether a function or an expression, or what it calls, runs the model with a graph.

    The calls that lead to where it is run are gone up, each code once: the ways down are as many
    as there are paths through the program.
    """
    todo = [event.site for event in plan.facts.events.get(model, ()) if event.gradient]
    seen: set[cst.CSTNode] = set()
    while todo:
        site = todo.pop()
        for one in (site.node, *site.module.structure.up(site.node)):
            if one is function:
                return True
            if one in seen:
                break
            seen.add(one)
            todo += plan.facts.callers.get(one, ())
    return False


def _calls_with(
    plan: Plan, model: Instance, function: cst.FunctionDef
) -> Iterator[tuple[Site, cst.BaseExpression]]:
    """The calls of a function from outside that give it the model, and the arguments that do."""
    for site in plan.facts.callers.get(function, ()):
        assert isinstance(site.node, cst.Call)
        if site.module.function(site.node) is function:
            continue
        for argument in site.node.args:
            if model in plan.facts.values.get(argument.value, UNKNOWN).atoms:
                yield site, argument.value
