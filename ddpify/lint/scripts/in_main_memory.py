"""States of a model that was put into main memory before they are made."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.syntax import code_of
from ddpify.understanding.taint.locations import Location
from ddpify.understanding.values import Device

_MOVES = ("cpu", "cuda", "to")
_OFFLOADS = ("cpu_offload", "offload_to_cpu")
_DEEP = 3  # from a function to its callers


def is_made_in_memory(script: Script, node: cst.CSTNode) -> bool:
    """``net.cpu()``, and then ``net.state_dict()``; also of ``kept = copy.deepcopy(net).cpu()``."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    return node.func.attr.value == "state_dict" and _is_in_memory(script, node.func.value, _DEEP)


def moves_to_memory(script: Script, node: cst.CSTNode) -> bool:
    """``v.cpu()``, ``v.to("cpu")``, ``FullStateDictConfig(offload_to_cpu=True)``."""
    if not isinstance(node, cst.Call):
        return False
    by_name = isinstance(node.func, cst.Attribute) and node.func.attr.value == "cpu"
    return by_name or any(_puts_in_memory(script, one) for one in node.args)


def _puts_in_memory(script: Script, given: cst.Arg) -> bool:
    text, device = code_of(given.value), script.value(given.value).atoms
    is_set = given.keyword is not None and given.keyword.value in _OFFLOADS
    return (
        (is_set and text == "True")
        or text in ('"cpu"', "'cpu'")
        or (bool(device) and all(isinstance(one, Device) and not one.accelerator for one in device))
    )


def _is_in_memory(script: Script, model: cst.BaseExpression, depth: int) -> bool:
    """Whether the last move of a model before a place puts it there; where its function has none,
    before each of its calls.
    """
    subject = _itself(model)
    if not isinstance(subject, (cst.Name, cst.Attribute)):
        return moves_to_memory(script, subject)
    locations = script.control.locations(subject)
    moves = list(_moves_before(script, subject, locations))
    if moves:
        last = max(moves, key=script.structure_of(subject).order.__getitem__)
        return moves_to_memory(script, last) and _runs_with(script, last, model)
    given = [edge.value for edge in script.flow.edges_into(locations) if edge.passes]
    return (
        depth > 0
        and bool(given)
        and all(one is not None and _is_in_memory(script, one, depth - 1) for one in given)
    )


def _itself(model: cst.BaseExpression) -> cst.BaseExpression:
    """The wrapper of a model, where it is taken out of one: they move together."""
    while isinstance(model, cst.Attribute) and model.attr.value == "module":
        model = model.value
    return model


def _moves_before(
    script: Script, model: cst.Name | cst.Attribute, locations: set[Location]
) -> Iterator[cst.Call]:
    """Calls above in the same function that move a model, or that make one of this name so."""
    structure = script.structure_of(model)
    function, order = structure.function(model), structure.order
    for call in (one for name in _MOVES for one in structure.method_calls.get(name, ())):
        if structure.function(call) is not function or order[call] >= order[model]:
            continue
        if locations & {*_moved(script, call), *_set_by(script, call)}:
            yield call


def _moved(script: Script, call: cst.Call) -> set[Location]:
    """What a method moves in place, if it is a model."""
    assert isinstance(call.func, cst.Attribute)
    moved = _itself(call.func.value)
    return (
        script.control.locations(moved) if isinstance(moved, (cst.Name, cst.Attribute)) else set()
    )


def _set_by(script: Script, call: cst.Call) -> set[Location]:
    """The names that a statement sets which a call stands in."""
    for above in script.structure_of(call).up(call):
        if isinstance(above, (cst.Assign, cst.AnnAssign)):
            return {one for edge in script.flow.edges_at(above) for one in edge.targets}
        if isinstance(above, cst.BaseStatement):
            break
    return set()


def _runs_with(script: Script, move: cst.Call, model: cst.BaseExpression) -> bool:
    """Whether a place is reached only where a move above it was made."""
    ways = {(one.statement, one.positive) for one in script.control.guards(model)}
    return {(one.statement, one.positive) for one in script.control.guards(move)} <= ways
