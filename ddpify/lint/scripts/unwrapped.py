"""What was taken out of a wrapper: ``x.module``, also by a name, a choice or a helper."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import is_wrapper
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.call_graph import called

_DEEP = 4  # from one name to the next


def taken_out(script: Script, node: cst.BaseExpression) -> list[cst.Attribute]:
    """The ``x.module`` of wrappers ``x`` that an expression may stand for, or starts with."""
    direct = module_of(node)
    if direct is not None:
        return [direct] if script.is_wrapped(direct.value) else []
    held = script.value(node).atoms
    if held and all(map(is_wrapper, held)):
        return []  # whatever it was before it was wrapped, perhaps again
    return list(dict.fromkeys(_behind(script, node, _DEEP)))


def module_of(node: cst.BaseExpression) -> cst.Attribute | None:
    """The ``x.module`` that an expression starts with."""
    while isinstance(node, cst.Attribute):
        if node.attr.value == "module":
            return node
        node = node.value
    return None


def _behind(script: Script, node: cst.CSTNode, depth: int) -> Iterator[cst.Attribute]:
    if isinstance(node, cst.Attribute) and node.attr.value == "module":
        if script.is_wrapped(node.value):
            yield node
    elif depth and isinstance(node, (cst.Name, cst.Attribute)):
        edges = script.flow.edges_into(script.control.locations(node))
        for edge in edges:
            if edge.value is not None and not edge.adds:
                yield from _behind(script, edge.value, depth - 1)
        if isinstance(node, cst.Attribute) and not edges:
            yield from _behind(script, node.value, depth)
    elif isinstance(node, cst.IfExp):
        for side in (node.body, node.orelse):
            yield from _behind(script, side, depth)
    elif depth and isinstance(node, cst.Call):
        for function in called(script.facts, node):
            for one in walk(function.node.body):
                if isinstance(one, cst.Return) and one.value is not None:
                    yield from _behind(script, one.value, depth - 1)
