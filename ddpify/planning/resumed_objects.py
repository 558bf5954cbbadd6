"""The objects that the rounds of a loop change in place, and what the script calls them."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.planning.plan import Plan
from ddpify.planning.resumed_loops import (
    Gap,
    ResumedLoop,
    Resumption,
    bound_names,
    changed,
    depth,
    reached,
)
from ddpify.understanding.facts import Site
from ddpify.understanding.libraries.object_kinds import is_model
from ddpify.understanding.project import ModuleFile
from ddpify.understanding.values import Class, Instance, Value, deep_atoms

_STATEFUL = ("torch.optim.", "torch.amp.GradScaler", "torch.cuda.amp.GradScaler",
             "torch.Generator", "numpy.random.default_rng", "numpy.random.RandomState",
             "random.Random", "torchmetrics.")  # fmt: skip


def name_objects(plan: Plan, found: Resumption, models: list[Instance]) -> None:
    """Give each stateful object to the outermost loop that it outlives, and that has a name for it.

    What a round of the loop makes is made again by a restarted round; loops within it may hold it.
    """
    loops = sorted(found.loops.values(), key=lambda one: depth(plan, found, one))
    named: set[Instance] = set()
    nameless: dict[Instance, None] = {}
    for one in loops:
        nodes = list(reached(plan, one))
        inside = set(nodes)
        for target in _stateful(plan, models, nodes):
            if target in named or target.site in inside:
                continue
            name = _name_of(plan, one, target)
            if name is None:
                nameless[target] = None
                continue
            named.add(target)
            if name not in one.objects and name not in one.values:
                one.objects.append(name)
    for target in nameless:
        if target not in named:
            site = Site(target.site, target.module)
            found.gaps.append(Gap(site, "the object made here has no name where the loop starts"))


def _stateful(plan: Plan, models: list[Instance], nodes: list[cst.CSTNode]) -> list[Instance]:
    """The objects that a step may change: models first, then optimizers, then what it uses."""
    found = dict.fromkeys([*models, *plan.facts.optimizers])
    used = (plan.facts.values.get(node) for node in nodes)
    for held in used:
        for atom in held.atoms if held is not None else ():
            if isinstance(atom, Instance) and _has_state(atom):
                found.setdefault(atom)
    for node in nodes:
        found.update(dict.fromkeys(changed(plan, node)))
    return list(found)


def _has_state(one: Instance) -> bool:
    return isinstance(one.type, str) and one.type.startswith(_STATEFUL)


def _name_of(plan: Plan, loop: ResumedLoop, target: Instance) -> str | None:
    """How the function of a loop calls an object before the loop starts: ``x`` or ``x.y``."""
    module = loop.module
    function = module.function(loop.node)
    scope: cst.CSTNode = function if function is not None else module.tree
    start = module.structure.order[loop.node]
    names = [n for n in bound_names(scope) if module.structure.order[n] < start]
    if function is not None:
        params = function.params
        names += [p.name for p in (*params.params, *params.kwonly_params, *params.posonly_params)]
        names += [n for n in bound_names(module.tree) if module.function(n) is None]
    held: dict[str, Value] = {}
    for node in _names_in(plan, module, scope, {n.value for n in names}):
        held.setdefault(node.value, plan.facts.values[node])
    for name in sorted(held, key=len):
        if target in held[name].atoms:
            return name
    for name in sorted(held, key=len):
        for atom in held[name].atoms:
            if isinstance(atom, Instance) and isinstance(atom.type, Class) and not is_model(atom):
                for attribute, value in atom.attributes.items():
                    if target in deep_atoms(value) and attribute.isidentifier():
                        return f"{name}.{attribute}"
    return next((name for name in sorted(held, key=len) if target in deep_atoms(held[name])), None)


def _names_in(
    plan: Plan, module: ModuleFile, scope: cst.CSTNode, names: set[str]
) -> Iterator[cst.Name]:
    for node in module.structure.all(cst.Name):
        if node.value in names and node in plan.facts.values:
            function = module.function(node)
            if function is scope or function is None:
                yield node
