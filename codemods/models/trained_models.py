"""Which models are trained: the outermost ones, not their layers."""

from __future__ import annotations

import libcst as cst

from ddpify.planning.plan import Plan
from ddpify.understanding.syntax import code_of
from ddpify.understanding.values import (
    CONTAINERS,
    UNKNOWN,
    Instance,
    Params,
    Value,
    deep_atoms,
    value,
)


def trained_models(plan: Plan) -> list[Instance]:
    """The outermost models whose parameters an optimizer steps, or the script by hand."""
    owners: list[Instance] = []
    for optimizer in plan.facts.optimizers:
        for atom in deep_atoms(optimizer.arguments["params"]):
            assert isinstance(atom, Params)
            owner = whole(plan, atom.owner)
            if owner not in owners:
                owners.append(owner)
    by_hand = [
        whole(plan, model) for model in plan.facts.models if model in plan.facts.gradients.stepped
    ]
    return list(dict.fromkeys([*owners, *by_hand]))


def whole(plan: Plan, part: Instance) -> Instance:
    """The model that a layer belongs to."""
    current, seen = part, {part}
    while True:
        holders = [
            m
            for m in plan.facts.models
            if m not in seen and any(_registers(v, current) for v in m.attributes.values())
        ]
        holders = [one for one in holders if not _is_put_into(plan, one, current)]
        if not holders:
            return current
        # A part that another model gets later was made for the first, if that one is used at all.
        called = [m for m in holders if _is_called(plan, m)] or holders
        current = current.maker if current.maker in called else called[0]
        seen.add(current)


def _is_called(plan: Plan, model: Instance) -> bool:
    return any(event.kind == "call" for event in plan.facts.events.get(model, ()))


def _is_put_into(plan: Plan, made: Instance, model: Instance) -> bool:
    """Whether ``setattr(model, name, Adapted(layer))`` makes it a part: it holds another part."""
    above = made.module.parents.get(made.site)
    call = made.module.parents.get(above) if isinstance(above, cst.Arg) else None
    if not isinstance(call, cst.Call) or code_of(call.func) != "setattr":
        return False
    return model in plan.facts.values.get(call.args[0].value, UNKNOWN).atoms


def _registers(attribute: Value, part: Instance) -> bool:
    """Whether an attribute makes a module a part of the model: a plain list does not."""
    held = [a for a in attribute.atoms if isinstance(a, Instance)]
    layers = [a for a in held if a.type not in CONTAINERS]
    return part in layers or any(part in deep_atoms(value(a)) for a in layers)
