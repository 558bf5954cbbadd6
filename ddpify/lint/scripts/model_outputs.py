"""What a wrapped model makes in its own forward, where the wrapper's call gives the loss."""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.loss_inputs import reaches_loss, takes
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.object_kinds import is_model
from ddpify.understanding.model_structure import layers
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.values import Class, Instance


def is_in_output(
    script: Script, place: cst.Call, sent: cst.BaseExpression, made: set[Location]
) -> bool:
    """Whether what is made of a call in a wrapped model's method is in the loss that it returns.

    Args:
        script: The script that wraps the model.
        place: The call.
        sent: What the call is given, which a layer of the model has to have made.
        made: The slots of what is made of the call's result.
    """
    structure = script.structure_of(place)
    function = structure.function(place)
    owner = structure.class_of(function) if function is not None else None
    if owner is None or not any(one[:2] == ("result", function) for one in made):
        return False
    if any(one[:2] == ("attribute", owner) for one in made):
        return False  # a queue of keys, which needs no gradient
    return any(
        isinstance(event.site.node, cst.Call) and reaches_loss(script, event.site.node)
        for wrap in script.wraps
        if any(_makes(script, x, owner, sent) for model in wrap.held for x in layers(model))
        for event in script.events(wrap.wrapper, "call")
    )


def _makes(script: Script, model: Instance, owner: cst.ClassDef, sent: cst.BaseExpression) -> bool:
    """Whether a model is of a class, and a tensor is made of what its layers give in it."""
    if not isinstance(model.type, Class) or model.type.node is not owner:
        return False
    held = model.attributes.items()
    names = {name for name, value in held if any(map(is_model, value.of(Instance)))}
    starts = {
        location
        for call in walk(owner)
        if isinstance(call, cst.Call)
        and isinstance(call.func, cst.Attribute)
        and call.func.attr.value in names
        for location in takes(script, call)
    }
    return bool(script.flow.derived(starts) & script.flow.locations(sent, script.module))
