"""Generators of the project that give what they go over, as it is: ``logger.log_every(loader)``."""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.call_graph import called, passed
from ddpify.understanding.taint.flow_edges import FlowEdge
from ddpify.understanding.values import Bound, Function


def passed_through(script: Script, call: cst.Call) -> cst.BaseExpression | None:
    """What a call passes to a generator that yields the items of it, and nothing else."""
    functions = [one for one in called(script.facts, call) if one.module in script.structures]
    if len(functions) != 1:
        return None
    name = _gone_over(script, functions[0])
    bound = any(isinstance(one, Bound) for one in script.value(call.func).atoms)
    given = ((told, one.value) for one, told in passed(functions[0], int(bound), call))
    return next((value for told, value in given if told == name), None) if name else None


def _gone_over(script: Script, function: Function) -> str | None:
    """The parameter of a generator whose items it yields."""
    structure = script.structures[function.module]
    yielded = [one.value for one in walk(function.node.body) if isinstance(one, cst.Yield)]
    found = set()
    for one in yielded:
        edges = _moves_to(script, one) if isinstance(one, cst.Name) else []
        if len(edges) != 1 or not isinstance(edges[0].node, cst.For):
            return None
        iterated = _inside(script, edges[0].node.iter)
        if edges[0].node not in structure.order or not isinstance(iterated, cst.Name):
            return None
        found.add(iterated.value)
    return found.pop() if len(found) == 1 else None


def _moves_to(script: Script, name: cst.Name) -> list[FlowEdge]:
    return script.flow.edges_into(script.flow.locations(name, script.owners[name]))


def _inside(script: Script, node: cst.BaseExpression) -> cst.BaseExpression:
    """``loader`` of ``enumerate(loader, 1)``."""
    counted = isinstance(node, cst.Call) and "builtins.enumerate" in script.names(node.func)
    return node.args[0].value if counted and isinstance(node, cst.Call) and node.args else node
