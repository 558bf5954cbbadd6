"""Why a backward within the backward of a wrapper does harm: without a reason it does none.

DistributedDataParallel takes such a checkpoint as it is where each layer is checkpointed once, its
input asks for a gradient, and nothing looks for unused parameters.
"""

from __future__ import annotations

from itertools import takewhile

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.lint.scripts.understood import Wrap
from ddpify.understanding.libraries.distributed import DDP
from ddpify.understanding.structure import Structure, walk
from ddpify.understanding.syntax import argument, code_of
from ddpify.understanding.taint.flow_edges import FlowEdge
from ddpify.understanding.values import UNKNOWN, Class

_DEEP = 3  # from a forward to those that call it
_ASKS = "requires_grad"
_SEQUENTIAL = "torch.utils.checkpoint.checkpoint_sequential"


def harm(script: Script, call: cst.Call) -> str | None:
    """What goes wrong in a checkpoint that re-enters backward."""
    wraps = [wrap for wrap in script.wraps if wrap.wrapper.type == DDP]
    static = any(_is_set(wrap, "static_graph") for wrap in wraps)
    if not static and any(_is_set(wrap, "find_unused_parameters") for wrap in wraps):
        return "DDP looks for unused parameters, and its own backward makes the others ready twice"
    if not static and _comes_twice(script, call):
        return "its own backward makes this layer's parameters ready twice: DDP fails"
    if _gets_the_batch(script, call, wraps):
        return "the batch asks for no gradient, so that this layer gets none: DDP waits for it"
    return None


def _is_set(wrap: Wrap, option: str) -> bool:
    return wrap.wrapper.arguments.get(option, UNKNOWN).constant() is True


def _comes_twice(script: Script, call: cst.Call) -> bool:
    """Whether one layer is checkpointed again, further down or in the next round of a loop."""
    if not call.args or not isinstance(call.args[0].value, (cst.Name, cst.Attribute)):
        return False
    structure, text = script.structure_of(call), code_of(call.args[0].value)
    function = structure.function(call)
    if function is None:
        return False
    again = [
        one
        for one in structure.inside(function, cst.Call)
        if one.args and code_of(one.func) == code_of(call.func)
        if code_of(one.args[0].value) == text
        if one is call or _both_run(script, one, call)
    ]
    rounds = [*structure.loops(call), *_comprehensions(structure, call)]
    return (len(again) > 1 or bool(rounds)) and not any(_sets(one, text) for one in rounds)


def _comprehensions(structure: Structure, node: cst.CSTNode) -> list[cst.BaseComp]:
    """Those around a node in its function."""
    function = structure.function(node)
    above = takewhile(lambda one: one is not function, structure.up(node))
    return [one for one in above if isinstance(one, cst.BaseComp)]


def _both_run(script: Script, one: cst.Call, other: cst.Call) -> bool:
    """Whether no condition lets one of two places run in place of the other."""
    ways = {guard.statement: guard.positive for guard in script.control.guards(one)}
    return all(
        ways.get(guard.statement, guard.positive) == guard.positive
        for guard in script.control.guards(other)
    )


def _sets(loop: cst.For | cst.While | cst.BaseComp, text: str) -> bool:
    """Whether a loop sets the name that an expression starts with."""
    name = text.split(".", 1)[0]
    targets = [
        one.target
        for one in walk(loop)
        if isinstance(one, (cst.For, cst.CompFor, cst.AssignTarget))
    ]
    return any(isinstance(n, cst.Name) and n.value == name for one in targets for n in walk(one))


def _gets_the_batch(script: Script, call: cst.Call, wraps: list[Wrap]) -> bool:
    """Whether all that a checkpointed layer gets is what a wrapper was called with."""
    given = [one.value for one in call.args if one.keyword is None and not one.star]
    given = given[2:] if _SEQUENTIAL in script.names(call.func) else given[1:]
    last = argument(call, "input")
    given += [last.value] if last is not None else []
    kinds = {id(one.type.node) for w in wraps for one in w.held if isinstance(one.type, Class)}
    return bool(given) and all(_is_the_batch(script, one, kinds, _DEEP) for one in given)


def _is_the_batch(script: Script, node: cst.BaseExpression, kinds: set[int], depth: int) -> bool:
    """Whether a name is a parameter that nothing has set before, of a wrapped model's forward or of
    a function that is given one of these.
    """
    structure = script.structure_of(node)
    function = structure.function(node)
    if not isinstance(node, cst.Name) or not isinstance(function, cst.FunctionDef):
        return False
    edges = script.flow.edges_into(script.control.locations(node))
    given = [one for one in edges if one.passes]
    if any(_is_before(structure, one.node, node) for one in edges if not one.passes):
        return False
    if not _is_parameter(function, node.value) or _ASKS in code_of(function):
        return False
    around = next((one for one in structure.up(function) if isinstance(one, cst.ClassDef)), None)
    if around is not None and id(around) in kinds and function.name.value == "forward":
        return True
    return depth > 0 and bool(given) and all(_passes(script, one, kinds, depth) for one in given)


def _is_before(structure: Structure, earlier: cst.CSTNode, node: cst.CSTNode) -> bool:
    """Whether a statement may have run where a node is reached: above it, or in a loop with it."""
    if earlier not in structure.order:
        return True
    loops = {id(one) for one in structure.loops(node)}
    above = {id(one) for one in structure.up(node)}
    return any(id(one) in loops for one in structure.loops(earlier)) or (
        structure.order[earlier] < structure.order[node] and id(earlier) not in above
    )


def _passes(script: Script, edge: FlowEdge, kinds: set[int], depth: int) -> bool:
    return edge.value is not None and _is_the_batch(script, edge.value, kinds, depth - 1)


def _is_parameter(function: cst.FunctionDef, name: str) -> bool:
    return any(one.name.value == name for one in function.params.params)
