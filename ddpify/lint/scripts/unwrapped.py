"""What was taken out of a wrapper: ``x.module``, also by a name, a choice or a helper.

``getattr(x, "module", x)`` takes it out, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.syntax import content
from ddpify.understanding.taint.call_graph import called, read_as
from ddpify.understanding.taint.flow_edges import FlowEdge
from ddpify.understanding.values import Function

_DEEP = 4  # from one name to the next


def taken_out(script: Script, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The ``x.module`` of wrappers ``x`` that an expression may stand for, or starts with."""
    direct = module_of(node)
    if direct is not None:
        return [direct] if script.is_wrapped(wrapper_of(direct)) else []
    return list(dict.fromkeys(_behind(script, node, _DEEP)))


def module_of(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The ``x.module`` that an expression starts with."""
    while not takes_out(node):
        if not isinstance(node, cst.Attribute):
            return None
        node = node.value
    return node


def wrapper_of(taken: cst.CSTNode) -> cst.BaseExpression:
    """The ``x`` of ``x.module``."""
    if isinstance(taken, cst.Call):
        return taken.args[0].value
    assert isinstance(taken, cst.Attribute)
    return taken.value


def takes_out(node: cst.CSTNode) -> bool:
    """Whether an expression asks something for the model in it."""
    if isinstance(node, cst.Call):
        name = node.args[1].value if len(node.args) > 1 else None
        asked = isinstance(node.func, cst.Name) and node.func.value == "getattr"
        return asked and isinstance(name, cst.SimpleString) and content(name) == "module"
    return isinstance(node, cst.Attribute) and node.attr.value == "module"


def _behind(script: Script, node: cst.BaseExpression, depth: int) -> Iterator[cst.BaseExpression]:
    if takes_out(node):
        if script.is_wrapped(wrapper_of(node)):
            yield node
    elif depth and isinstance(node, (cst.Name, cst.Attribute)):
        edges = script.flow.edges_into(script.control.locations(node))
        for edge in edges:
            if edge.value is None or edge.adds or _is_wrapped_again(script, edge, edges, node):
                continue
            yield from _behind(script, edge.value, depth - 1)
        if isinstance(node, cst.Attribute):
            properties = [*read_as(script.facts, node)]
            yield from _returned(script, properties, depth)
            if not (edges or properties):
                yield from _behind(script, node.value, depth)
    elif isinstance(node, cst.IfExp):
        for side in (node.body, node.orelse):
            yield from _behind(script, side, depth)
    elif depth and isinstance(node, cst.Call):
        if "typing.cast" in script.names(node.func):
            yield from _behind(script, node.args[-1].value, depth)
        yield from _returned(script, called(script.facts, node), depth)


def _returned(
    script: Script, functions: Iterable[Function], depth: int
) -> Iterator[cst.BaseExpression]:
    """What functions and properties give."""
    for function in functions:
        for one in function.module.structure.inside(function.node.body, cst.Return):
            if one.value is not None:
                yield from _behind(script, one.value, depth - 1)


def _is_wrapped_again(
    script: Script, edge: FlowEdge, edges: list[FlowEdge], read: cst.CSTNode
) -> bool:
    """Whether a name is set to a wrapper after an edge, in the same function and under no condition
    of its own, and read below that, or in another function.
    """
    sites = {wrap.site.node for wrap in script.wraps}
    wrapping = [later for later in edges if later.value in sites]
    if not wrapping:
        return False
    structure, control = script.structure_of(edge.node), script.control
    function, order = structure.function(edge.node), structure.order
    here = {one.statement for one in control.guards(edge.node)}
    return any(
        later.node in order
        and order[later.node] > order[edge.node]
        and structure.function(later.node) is function
        and {one.statement for one in control.guards(later.node)} <= here
        and (
            read not in order
            or structure.function(read) is not function
            or order[read] > order[later.node]
        )
        for later in wrapping
    )
