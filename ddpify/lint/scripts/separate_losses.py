"""Which ``backward()`` an expression's value goes into, where a step has several."""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.loss_inputs import takes
from ddpify.lint.scripts.made_here import is_made_without
from ddpify.lint.scripts.script import Script
from ddpify.understanding.taint.reaching_definitions import reaching_definition
from ddpify.understanding.values import UNKNOWN, Instance, Params, deep_atoms

_STEPS = ("step", "zero_grad")


def are_averaged_together(
    script: Script, wrapper: Instance, own: cst.Call, other: cst.Call
) -> bool:
    """Whether the gradients of ``other`` are averaged with those of ``own``, a wrapper's call, or
    not used.

    They are averaged in one ``backward()``, and in an earlier one whose gradients are still there.
    They are not used where the step that follows is another model's, as a generator's.
    """
    mine, others = _backwards_of(script, own), _backwards_of(script, other)
    if not mine or not others or mine & others:
        return True
    structure = script.structure_of(own)
    places = {structure.function(one) if one in structure.order else None for one in mine | others}
    if len(places) > 1:
        return True  # which comes first is not seen
    order = structure.order
    last = max(order[one] for one in others)
    steps = [
        one
        for one in script.method_calls(*_STEPS)
        if one in order and structure.function(one) in places and order[one] > last
    ]
    if not steps or not _is_of(script, min(steps, key=order.__getitem__), wrapper):
        return True
    first = min(order[one] for one in steps)
    return any(last < order[one] < first for one in mine)


def _is_of(script: Script, call: cst.Call, wrapper: Instance) -> bool:
    """Whether ``optimizer.step()`` or ``scaler.step(optimizer)`` steps a wrapper's parameters."""
    assert isinstance(call.func, cst.Attribute)
    named = [call.func.value, *(one.value for one in call.args)]
    optimizers = [x for one in named for x in script.instances(one) if x in script.facts.optimizers]
    models = {wrapper, *(x for wrap in script.wraps if wrap.wrapper is wrapper for x in wrap.held)}
    owners = {
        atom.owner
        for one in optimizers
        for atom in deep_atoms(one.arguments.get("params", UNKNOWN))
        if isinstance(atom, Params)
    }
    return call.func.attr.value == "step" and not owners.isdisjoint(models)


def _backwards_of(script: Script, node: cst.Call) -> set[cst.CSTNode]:
    """The calls of ``backward()`` that surely, or maybe, get what is made of a call's result."""
    above = {node, *script.structure_of(node).up(node)}
    derived = script.flow.derived(takes(script, node))
    found = set[cst.CSTNode]()
    for one in script.facts.backwards:
        if not isinstance(one, cst.Call) or one not in script.owners:
            continue
        loss = one.func.value if isinstance(one.func, cst.Attribute) else one
        made = _made_by(script, loss)
        if (
            one in above
            or made in above
            or (
                derived & script.flow.locations(made, script.owners[one])
                and not is_made_without(script, made, node, derived)
            )
        ):
            found.add(one)
    return found


def _made_by(script: Script, loss: cst.BaseExpression) -> cst.BaseExpression:
    """What a loss was set to last; itself where that is not sure."""
    if not isinstance(loss, cst.Name):
        return loss
    structure = script.structure_of(loss)
    edges = script.flow.edges_into(script.control.locations(loss))
    here = [edge.node for edge in edges if edge.node in structure.order]
    last = reaching_definition(structure, loss, here)
    made = [edge for edge in edges if edge.node is last]
    if len(made) != 1 or made[0].adds or made[0].value is None:
        return loss
    return made[0].value
