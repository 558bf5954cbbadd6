"""Functions that only do something to a model: a name bound anew in one is lost when it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from ddpify.planning.plan import Plan
from ddpify.understanding.facts import Event, Site
from ddpify.understanding.labels.scopes import parameters
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.structure import walk
from ddpify.understanding.values import UNKNOWN, Instance

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
        if not _is_helper(plan, model, function, event.site.node):
            return event
        seen.add(function)
        calls = list(_calls_with(plan, model, function))
        if len(calls) != 1:
            return None
        event = Event("given", calls[0])


def _is_helper(plan: Plan, model: Instance, function: cst.FunctionDef, place: cst.CSTNode) -> bool:
    """Whether a function that gets a model neither trains it nor hands it on."""
    nodes = list(walk(function))
    returned = [n.value for n in nodes if isinstance(n, cst.Return) and n.value is not None]
    calls = (n for n in nodes if isinstance(n, cst.Call) and n is not place)
    handed_on = any(model in plan.facts.values.get(one, UNKNOWN).atoms for one in returned)
    return not handed_on and not any(_runs(plan, model, call) for call in calls)


def _runs(plan: Plan, model: Instance, call: cst.Call) -> bool:
    """Whether a call runs the model with a graph, or gives it to a function of the project."""
    if any(e.site.node is call and e.gradient for e in plan.facts.events.get(model, ())):
        return True
    called = any(site.node is call for sites in plan.facts.callers.values() for site in sites)
    return called and any(
        model in plan.facts.values.get(argument.value, UNKNOWN).atoms for argument in call.args
    )


def _calls_with(plan: Plan, model: Instance, function: cst.FunctionDef) -> Iterator[Site]:
    """The arguments by whose name calls of a function give it the model."""
    for site in plan.facts.callers.get(function, ()):
        assert isinstance(site.node, cst.Call)
        for argument in site.node.args:
            held = plan.facts.values.get(argument.value, UNKNOWN)
            if isinstance(argument.value, cst.Name) and model in held.atoms:
                yield Site(argument.value, site.module)
