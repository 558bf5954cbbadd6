"""Which models are trained: the outermost ones, not their layers."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from ddpify.planning.plan import Plan
from ddpify.understanding.syntax import code_of
from ddpify.understanding.values import (
    CONTAINERS,
    UNKNOWN,
    Instance,
    Params,
    deep_atoms,
    value,
)


def trained_models(plan: Plan) -> list[Instance]:
    """The outermost models whose parameters an optimizer steps, or the script by hand.

    What else an optimizer may get is refused elsewhere.
    """
    parts = [
        atom.owner
        for optimizer in plan.facts.optimizers
        for atom in deep_atoms(optimizer.arguments.get("params", UNKNOWN))
        if isinstance(atom, Params)
    ]
    by_hand = (model for model in plan.facts.models if model in plan.facts.gradients.stepped)
    return list(dict.fromkeys(whole_models(plan, [*parts, *by_hand])))


def whole_models(plan: Plan, parts: Iterable[Instance]) -> list[Instance]:
    """The models that some layers belong to, in the same order."""
    holders = _holders(plan)
    return [_whole(plan, holders, part) for part in parts]


def _holders(plan: Plan) -> dict[Instance, list[Instance]]:
    """The models of which each module is a part, in the order of making: those in a plain list
    are none.
    """
    found: dict[Instance, dict[Instance, None]] = {}
    for model in plan.facts.models:
        held = (atom for one in model.attributes.values() for atom in one.of(Instance))
        layers = [atom for atom in held if atom.type not in CONTAINERS]
        for part in deep_atoms(value(*layers)):
            if isinstance(part, Instance):
                found.setdefault(part, {})[model] = None
    return {part: list(models) for part, models in found.items()}


def _whole(plan: Plan, holders: dict[Instance, list[Instance]], part: Instance) -> Instance:
    """The model that a layer belongs to."""
    current, seen = part, {part}
    while True:
        around = [one for one in holders.get(current, ()) if one not in seen]
        around = [one for one in around if not _is_put_into(plan, one, current)]
        if not around:
            return current
        # A part that another model gets later was made for the first, if that one is used at all.
        called = [one for one in around if _is_called(plan, one)] or around
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
